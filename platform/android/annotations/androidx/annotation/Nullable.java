package androidx.annotation;

import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;

/** What javac needs of androidx.annotation, which Kotlin and Android Studio know by its name; not packed. */
@Retention(RetentionPolicy.CLASS)
public @interface Nullable {}
