package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A device that can run graft. */
public final class Device extends Shown {
  @NonNull public final DeviceInfo info;
  @NonNull public final Map<String, Boolean> features = new LinkedHashMap<>();
  /** Of workgroups by axis. */
  @NonNull public final Map<String, long[]> limits = new LinkedHashMap<>();
  /** "matrices of f16 16x16x16" */
  @NonNull public final List<String> matrices = new ArrayList<>();
  /** Faults of its driver that graft works around. */
  @NonNull public final List<DeviceQuirk> quirks;

  private Device(long devices, long index) {
    info = In.one(Jni.devicesInfo(devices, index), DeviceInfo::new);
    for (DeviceFact fact : Lists.until(i -> In.one(Jni.devicesFact(devices, index, i), DeviceFact::new))) {
      if (fact.text != null) matrices.add(fact.text);
      else if (fact.isFeature) features.put(fact.name, fact.values.length > 0 && fact.values[0] != 0);
      else limits.put(fact.name, fact.values);
    }
    quirks = Lists.until(i -> In.one(Jni.devicesQuirk(devices, index, i), DeviceQuirk::new));
  }

  /** The devices that can run graft, in the loader's order; none of them is opened. */
  @NonNull
  public static List<Device> all() {
    return all(null);
  }

  /** By another loader or driver instead of the system's. */
  @NonNull
  public static List<Device> all(@Nullable String vulkanLibrary) {
    long devices = Jni.devicesFind(vulkanLibrary);
    try {
      return Lists.of(Jni.devicesCount(devices), index -> new Device(devices, index));
    } finally {
      Jni.devicesDestroy(devices);
    }
  }
}
