/* graft's C ABI, memory of other APIs: inputs and outputs of sessions that never pass through the host, from a camera,
 * a decoder or a renderer, and to them. graft.h does not include it; its rules hold.
 */
#ifndef GRAFT_EXTERNAL_H
#define GRAFT_EXTERNAL_H

#include "graft/graft.h"

GRAFT_BEGIN_C

/* What names the memory. */
typedef enum graft_external_kind GRAFT_ENUM_OF_INT {
  GRAFT_EXTERNAL_OPAQUE_FD = 0, /* exported by Vulkan on the same GPU and driver (VK_KHR_external_memory_fd) */
  GRAFT_EXTERNAL_DMA_BUF = 1,   /* of Linux: cameras, video decoders, displays (VK_EXT_external_memory_dma_buf) */
  GRAFT_EXTERNAL_HOST = 2,      /* the app's own memory (VK_EXT_external_memory_host) */
  /* An AHardwareBuffer of Android, of the format BLOB and with the usage GPU_DATA_BUFFER
     (VK_ANDROID_external_memory_android_hardware_buffer); graft keeps
     it while it is bound, so that the caller may release it at once. */
  GRAFT_EXTERNAL_HARDWARE_BUFFER = 3
} graft_external_kind;

typedef struct graft_external_memory { /* One whole allocation, and where in it a tensor begins. */
  size_t struct_size;
  graft_external_kind kind;
  int fd;               /* of the first two kinds; stays the caller's, who may close it when the call returns */
  void* pointer;        /* of the others: the AHardwareBuffer, or where the app's memory begins; as Vulkan asks, that
                           and its size are multiples of a page or more */
  uint64_t bytes;       /* of the allocation, as its maker allocated it */
  uint64_t offset;      /* of the tensor: a multiple of 256 suits every device */
  int own_memory_type;  /* 1: memory_type counts; an opaque fd needs it where the device has several types */
  uint32_t memory_type; /* index of the Vulkan memory type that it was allocated with */
} graft_external_memory;

/* From now on runs of the session read the input, or write the output, of this name there: row-major, in the element
   type of the model (or of the session's format of this input), rounded up to whole 4 bytes. NULL: as before. Each run
   takes the memory over and gives it back when it is over: what others write must be done before a run is asked for,
   and nobody else may use the memory until it is done. Numbers of such an input are not checked. It ends with
   graft_session_resize and graft_session_pause. GRAFT_UNSUPPORTED where the device or its driver lacks the extension;
   on failure nothing changed. */
GRAFT_API graft_status graft_session_bind(graft_session* session, const char* name,
                                          const graft_external_memory* memory);

GRAFT_END_C
#endif
