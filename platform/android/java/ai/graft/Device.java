package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A device that can run graft. */
public final class Device extends Shown {
  /** In the order of graft_device_type. */
  public enum Kind { OTHER, INTEGRATED, DISCRETE, VIRTUAL, CPU }

  /** A fault of a driver that graft works around. */
  public static final class Quirk extends Shown {
    @NonNull public final String name;
    @NonNull public final String action;
    @NonNull public final String reason;
    @NonNull public final String link;

    Quirk(Record record) {
      name = record.text();
      action = record.text();
      reason = record.text();
      link = record.text();
    }
  }

  @NonNull public final String name;
  @NonNull public final String driver;
  @NonNull public final String driverInfo;
  @NonNull public final Kind kind;
  public final long vendorId;
  public final long deviceId;
  /** Of Vulkan: major, minor, patch. */
  @NonNull public final int[] apiVersion;
  /** Bytes of all heaps of the device, and of the one that plans live in. */
  public final long memory;
  public final long largestHeap;
  /** Shared with the host. */
  public final boolean unifiedMemory;
  public final boolean timestamps;
  @NonNull public final Map<String, Boolean> features = new LinkedHashMap<>();
  /** Of workgroups by axis. */
  @NonNull public final Map<String, long[]> limits = new LinkedHashMap<>();
  /** "matrices of f16 16x16x16" */
  @NonNull public final List<String> matrices = new ArrayList<>();
  @NonNull public final List<Quirk> quirks = new ArrayList<>();

  private Device(Record record) {
    name = record.text();
    driver = record.text();
    driverInfo = record.text();
    kind = Kind.values()[record.count()];
    vendorId = record.number();
    deviceId = record.number();
    apiVersion = new int[] {record.count(), record.count(), record.count()};
    memory = record.number();
    largestHeap = record.number();
    unifiedMemory = record.flag();
    timestamps = record.flag();
    int facts = record.count();
    for (int i = 0; i < facts; i++) {
      String fact = record.text();
      String text = record.text();
      boolean feature = record.flag();
      long[] numbers = new long[record.count()];
      for (int k = 0; k < numbers.length; k++) numbers[k] = record.number();
      if (text != null) matrices.add(text);
      else if (feature) features.put(fact, numbers.length > 0 && numbers[0] != 0);
      else limits.put(fact, numbers);
    }
    while (record.hasText()) quirks.add(new Quirk(record));
  }

  /** The devices that can run graft, in the loader's order; none of them is opened. */
  @NonNull
  public static List<Device> all() {
    return all(null);
  }

  /** By another loader or driver instead of the system's. */
  @NonNull
  public static List<Device> all(@Nullable String vulkanLibrary) {
    List<Device> devices = new ArrayList<>();
    for (Record record : Jni.devices(vulkanLibrary)) devices.add(new Device(record));
    return devices;
  }
}
