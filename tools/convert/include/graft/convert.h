/* graft's C ABI, conversion: models of other formats become .graft files. A library of its own (libgraft_convert),
 * which needs no device and neither uses nor needs libgraft; the rules of graft.h hold.
 *
 * Threads: any; conversions are independent of each other. */
#ifndef GRAFT_CONVERT_H
#define GRAFT_CONVERT_H

#include "graft/graft.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a conversion reports. */
typedef struct graft_conversion graft_conversion;

/* An axis of size 1 of an input that becomes a named dimension. */
typedef struct graft_open_axis {
  const char* symbol; /* letters, digits and '_', not a digit first */
  const char* input;
  int64_t axis;
} graft_open_axis;

/* What one of an ONNX file's inputs holds once and for all. */
typedef struct graft_input_contents {
  const char* input;
  const char* file; /* .npy */
} graft_input_contents;

/* How many tensors a sequence among an ONNX file's inputs holds, or an optional (1 or 0). */
typedef struct graft_input_length {
  const char* input;
  int64_t count;
} graft_input_length;

/* How a model is converted. */
typedef struct graft_convert_options {
  size_t struct_size;
  /* For ONNX files: */
  const graft_binding* bindings; /* sizes of named dimensions; the others stay open */
  size_t binding_count;
  const char* const* constants; /* patterns ('*', '?') of names of float tensors that are not trained */
  size_t constant_count;
  const char* const* parameters; /* of some that are, although they look like constants */
  size_t parameter_count;
  /* For language models: */
  const char* quantize; /* matrices become "q8_0", "q4_0", ...; NULL: they stay as they are */
  int expand;           /* 1: quantized matrices become f32, which can be trained */
  /* For ONNX files: */
  const char*
      weights; /* a PyTorch checkpoint (.pth, .pt) or safetensors file with the graph's weights; NULL: its own */
  const graft_open_axis* opens; /* TFLite files, too; unsupported where the graph fixes the axis */
  size_t open_count;
  const graft_input_contents* contents;
  size_t content_count;
  const graft_input_length* lengths;
  size_t length_count;
  int train_buffers; /* 1: grids, masks, tables of positions are trained, where a gradient reaches them */
  /* For quantized TFLite files: */
  int fake_quantize; /* 1: values are rounded to the file's grid, as integer devices do; forward alone */
  /* Asked now and then from the calling thread; not 0: nothing is written, and the call returns GRAFT_CANCELLED. NULL:
     nobody is asked. */
  int (*cancelled)(void* user);
  void* user;
  /* Told from the calling thread how far the conversion is: so many of a file's nodes or layers; then not 0 ends it as
     `cancelled` does. NULL: nobody is told. */
  int (*progress)(void* user, uint64_t done, uint64_t total);
  const char*
      imatrix; /* with `quantize`: an importance matrix (a GGUF file), by which scales of blocks are searched that
                  leave the least error where it matters; NULL: none. The report has the error of each matrix. */
  /* 1: of the config.json of a Hugging Face folder, which is all of it that is read: a model whose weights have shapes
     and no contents, before they are there, for graft_plan_create() of graft/plan.h: graft_conversion_bytes() gives it
     to graft_model_open_source() with graft_model_options.shapes_only. `output` is NULL */
  int shapes_only;
  /* For language models: fields of config.json, or keys of a GGUF file, that are passed over although graft does not
     have them, as messages name them ("is_causal", "rope_scaling.mrope_section"). The model is then another one */
  const char* const* ignored_fields;
  size_t ignored_field_count;
} graft_convert_options;

/* Converts an ONNX file, a TFLite file, a GGUF file or a Hugging Face folder (config.json and safetensors) and writes
   `output` atomically. options may be NULL. Where *conversion is not NULL afterwards it holds the sentence of a failure
   and the report, also of a model that does not convert; destroy it. unsupported: a format or an operator that graft
   cannot convert; the report then names all problems. `output` NULL: nothing is written; the conversion keeps the
   model for graft_conversion_save(), and the source's files stay open as long. */
GRAFT_API graft_status graft_convert(const char* path, const graft_convert_options* options, const char* output,
                                     graft_conversion** conversion);
/* The adapters of a PEFT folder or a GGUF file become a .graft file for graft_model_load_adapters, made for the model
   `base` and no other. `output` may be NULL, as above. */
GRAFT_API graft_status graft_convert_adapter(const char* path, const char* base, const char* output,
                                             graft_conversion** conversion);

/* How adapters are converted. */
typedef struct graft_convert_adapter_options {
  size_t struct_size;
  int any_base; /* 1: a .graft file of adapters too, although it was made for other weights; else those are refused */
  const char* const* ignored_fields; /* of adapter_config.json: as in graft_convert_options */
  size_t ignored_field_count;
} graft_convert_adapter_options;

/* The same with options, which may be NULL. What a .graft file of adapters says of its base is then of `base`, and rows
   that that model has in another order are put into it. */
GRAFT_API graft_status graft_convert_adapter_with(const char* path, const char* base,
                                                  const graft_convert_adapter_options* options, const char* output,
                                                  graft_conversion** conversion);
/* A tokenizer's file (tokenizer.json, tokenizer.model, a GGUF file, or a folder with one of them), for which
   graft_conversion_bytes() gives what graft_tokenizer_open() takes. *conversion as above. */
GRAFT_API graft_status graft_convert_tokenizer(const char* path, graft_conversion** conversion);
/* What a conversion without an output made, as the bytes of a .graft file: for graft_model_open_source() and
   graft_model_load_adapters_source(), without a file. They begin at a multiple of 8 bytes and live as long as the
   conversion; data and bytes may be NULL. invalid_argument: it made nothing. */
GRAFT_API graft_status graft_conversion_bytes(graft_conversion* conversion, const void** data, size_t* bytes);

/* Writes what a conversion without an output made, atomically; again, to another path, where that failed. From then on
   the conversion's message is of this call. invalid_argument: there is nothing to save. */
GRAFT_API graft_status graft_conversion_save(graft_conversion* conversion, const char* output);
/* What graft_convert_options.quantize may be: "q8_0", "q4_0", ...; NULL where index is beyond the last. */
GRAFT_API const char* graft_convert_quantize_name(size_t index);

/* How a .graft file is exported. */
typedef struct graft_export_options {
  size_t struct_size;
  const char* format; /* "gguf", "safetensors", "onnx", "tflite" or "folder" (as Hugging Face has them; of adapters, as
                         PEFT does); NULL: as the output's name ends */
  const char* dtype;  /* what matrices become: "f16", "q8_0", ...; NULL: what they are */
  const char* source; /* for "onnx" and "tflite": the file that the model was converted from, whose graph stays */
  int allow_non_finite;
  const char* imatrix; /* for blocks of GGUF files: an importance matrix (a GGUF file), by which scales are
                          searched that leave the least error where it matters; NULL: none. The report has the error of
                          each matrix. */
} graft_export_options;

/* A .graft file, of a model or of adapters, back to a format of other programs, under the names and in the layout that
   it came with. options may be NULL. *conversion as above; the report lists the files, and what a user should know. */
GRAFT_API graft_status graft_export(const char* path, const graft_export_options* options, const char* output,
                                    graft_conversion** conversion);

/* All tensors of a snapshot of a run's folder (graft/snapshots.h), optimizer state too, as a safetensors file with the
   names, shapes and order of axes of the model. `snapshot`: its number or a tag; NULL: the one that training goes on
   from. The report's JSON has "snapshot", "step" and "tensors", how many. *conversion as above. */
GRAFT_API graft_status graft_export_snapshot(const char* folder, const char* snapshot, const char* output,
                                             graft_conversion** conversion);
/* What graft_export_options.format may be; NULL where index is beyond the last. */
GRAFT_API const char* graft_export_format_name(size_t index);
/* The same of .dtype. */
GRAFT_API const char* graft_export_dtype_name(size_t index);
/* The format that an output of this name gets where none is named: "gguf" of "a.gguf", else "folder"; "" for NULL. */
GRAFT_API const char* graft_export_format_of(const char* output);

/* What an importance matrix is written of. */
typedef struct graft_imatrix_options {
  size_t struct_size;
  const graft_importance_matrix* matrices; /* as graft_importance_at() of graft/importance.h gives them */
  size_t matrix_count;
  const char* const* datasets; /* where the texts are from: the file says so */
  size_t dataset_count;
  uint64_t chunks; /* as graft_importance_describe() has them */
  uint32_t context;
} graft_imatrix_options;

/* Writes an importance matrix for the .graft file `path`, as llama.cpp has them (a GGUF file), for
   graft_export_options.imatrix and for llama.cpp. `output` NULL: nothing is written, and no sums are looked at; the
   answer is whether the matrices have names in GGUF files. *conversion as above. not_found: the model was not converted
   from a language model's files, which name the matrices. */
GRAFT_API graft_status graft_write_imatrix(const char* path, const graft_imatrix_options* options, const char* output,
                                           graft_conversion** conversion);

/* An untrained example network as an ONNX file, to try things with: graft_convert_example_name() of 0, 1, ... are the
   networks. *conversion as above. not_found: no network of this name. */
GRAFT_API graft_status graft_convert_example(const char* name, uint64_t seed, const char* output,
                                             graft_conversion** conversion);
/* The name of an example network; NULL where index is beyond the last. */
GRAFT_API const char* graft_convert_example_name(size_t index);
GRAFT_API void graft_conversion_destroy(graft_conversion* conversion);
/* The sentence of the failure; "" where there was none. These are valid as long as the conversion. */
GRAFT_API const char* graft_conversion_message(const graft_conversion* conversion);
/* As text and as JSON; of graft_convert what becomes of every operator and what can be trained. "" where there is
   none. */
GRAFT_API const char* graft_conversion_report(const graft_conversion* conversion);
/* The report as JSON, as graft convert --json prints it; it lives as long as the conversion. */
GRAFT_API const char* graft_conversion_report_json(const graft_conversion* conversion);

/* How much each matrix that became blocks changed, as a table: a line of heads, and one for each; as long. */
GRAFT_API const char* graft_conversion_errors(const graft_conversion* conversion);
/* Why a language model is without its tokenizer and takes token ids alone; "" of all others. As long. */
GRAFT_API const char* graft_conversion_tokenizer_fault(const graft_conversion* conversion);

#ifdef __cplusplus
}
#endif

#endif
