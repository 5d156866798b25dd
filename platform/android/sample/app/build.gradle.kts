plugins {
  id("com.android.application") version "8.6.1"
  id("org.jetbrains.kotlin.android") version "2.0.21"
}

android {
  namespace = "ai.graft.sample"
  compileSdk = 35
  defaultConfig {
    applicationId = "ai.graft.sample"
    minSdk = 26
    targetSdk = 35
    versionCode = 1
    versionName = "1"
  }
  compileOptions {
    sourceCompatibility = JavaVersion.VERSION_17
    targetCompatibility = JavaVersion.VERSION_17
  }
  kotlinOptions { jvmTarget = "17" }
  // What is compressed already, and is copied out once.
  androidResources { noCompress += "graft" }
  // Generator.pieces() and its like.
  sourceSets["main"].java.srcDir("../../kotlin")
}

dependencies {
  implementation(files("libs/graft.aar"))
  implementation("androidx.work:work-runtime-ktx:2.9.1")
  implementation("org.jetbrains.kotlinx:kotlinx-coroutines-android:1.9.0")
}
