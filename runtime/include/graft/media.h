/* What reads pictures and sounds of data sets (folder:, wav:): functions of the app, over its platform's decoders, or
 * those of graft/codecs.h. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_MEDIA_H
#define GRAFT_MEDIA_H

GRAFT_BEGIN_C

/* What a pixel is. */
typedef enum graft_pixels GRAFT_ENUM_OF_INT {
  GRAFT_PIXELS_GRAY = 0,   /* a byte: luma of ITU-R BT.601 */
  GRAFT_PIXELS_RGB = 1,    /* three bytes; transparency is left out */
  GRAFT_PIXELS_INDEX = 2,  /* a byte as stored: a palette's index, or a gray value; for maps of classes */
  GRAFT_PIXELS_GRAY16 = 3, /* as GRAY, in a uint16_t from 0 to 65535 */
  GRAFT_PIXELS_RGB16 = 4   /* as RGB, in three of them */
} graft_pixels;

/* Functions over the contents of one file, called from graft's own threads, several at once; they must not call graft.
   Each returns 0, or something else where it does not read such a file. */
typedef struct graft_media {
  size_t struct_size;
  void* user;
  /* From the header, of the pixels as they are stored. Before anything is decoded, graft refuses images of more than
     2^26 pixels, or of more than 40 MiB and 24 bytes for each byte of the file (3 bytes a pixel, 6 at 16 bits). */
  int (*image_size)(void* user, const void* file, size_t bytes, uint32_t* width, uint32_t* height);
  /* width * height pixels, rows from the top, without gaps, as the file stores them (not turned upright), into out,
     which has out_bytes bytes. */
  int (*decode_image)(void* user, const void* file, size_t bytes, graft_pixels pixels, void* out, size_t out_bytes);
  /* Sets rate to samples a second, and calls give(to, samples, count) any number of times: the mean of all channels,
     full scale is 1. Where give() returns something else than 0 it is enough: fail. */
  int (*decode_sound)(void* user, const void* file, size_t bytes, uint32_t* rate,
                      int (*give)(void* to, const float* samples, size_t count), void* to);
  const char* image_formats; /* "JPEG, PNG": for sentences; NULL: pictures are not read */
  const char* sound_formats; /* NULL: sounds are not read */
  /* What was wrong with the file of this thread's last failure, as the rest of a sentence that begins with its name:
     "is a JPEG that ends too soon."; it may be NULL, and may give NULL. */
  const char* (*failure)(void* user);
  /* Bits of a channel (8 or 16) and the orientation (EXIF's tag, 1 to 8) of an image. graft asks for 16-bit pixels only
     where `bits` is 16, and turns the image as `orientation` says. NULL: all images have 8 bits and are upright. */
  int (*image_form)(void* user, const void* file, size_t bytes, uint32_t* bits, uint32_t* orientation);
} graft_media;

GRAFT_END_C
#endif
