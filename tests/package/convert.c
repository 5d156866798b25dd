/* A converter with the installed package: convert SOURCE MODEL.graft [PARAMETERS.safetensors [ADAPTER OUT.graft]],
   or convert --example OUT.onnx */
#include <graft/convert.h>
#include <stdio.h>
#include <string.h>

/* An app would move a bar; 1 would end the conversion. */
static int progress(void* user, uint64_t done, uint64_t total) {
  *(uint64_t*)user = total;
  return done > total;
}

int main(int argc, char** argv) {
  graft_conversion* conversion = NULL;
  graft_convert_options options = {0};
  graft_status status;
  if (argc != 3 && argc != 4 && argc != 6) return 2;
  options.struct_size = sizeof options;
  if (strcmp(argv[1], "--example") == 0) {
    status = graft_convert_example(graft_convert_example_name(0), 0, argv[2], &conversion);
    if (status != GRAFT_OK) fprintf(stderr, "%s\n", graft_conversion_message(conversion));
    graft_conversion_destroy(conversion);
    return status == GRAFT_OK ? 0 : 1;
  }
  uint64_t parts = 0;
  options.progress = progress;
  options.user = &parts;
  if (graft_convert_quantize_name(0) == NULL) return 1; /* what options.quantize may be, first of several */
  /* Kept first, so that it can be saved elsewhere where the first place has no room. */
  status = graft_convert(argv[1], &options, NULL, &conversion);
  if (status == GRAFT_OK) status = graft_conversion_save(conversion, argv[2]);
  printf("%s", graft_conversion_tokenizer_fault(conversion)); /* of a language model that has none */
  if (status == GRAFT_OK && parts == 0) return 1;             /* it was told of */
  printf("%s", graft_conversion_report(conversion));
  if (status == GRAFT_OK && graft_conversion_report_json(conversion)[0] != '{') return 1; /* the same, for programs */
  if (status != GRAFT_OK) fprintf(stderr, "%s\n", graft_conversion_message(conversion));
  graft_conversion_destroy(conversion);
  if (status != GRAFT_OK) return 1;
  if (argc >= 4) {
    graft_export_options back = {0};
    back.struct_size = sizeof back;
    if (strcmp(graft_export_format_of(argv[3]), graft_export_format_name(1)) != 0) return 1; /* "safetensors" */
    if (graft_export_dtype_name(0) == NULL) return 1;
    status = graft_export(argv[2], &back, argv[3], &conversion);
    printf("%s", graft_conversion_report(conversion));
    printf("%s", graft_conversion_errors(conversion)); /* heads alone: nothing became blocks */
    if (status != GRAFT_OK) fprintf(stderr, "%s\n", graft_conversion_message(conversion));
    graft_conversion_destroy(conversion);
  }
  if (status == GRAFT_OK && argc == 6) { /* a PEFT folder or a GGUF file, for the model just made */
    status = graft_convert_adapter(argv[4], argv[2], argv[5], &conversion);
    if (status != GRAFT_OK) fprintf(stderr, "%s\n", graft_conversion_message(conversion));
    graft_conversion_destroy(conversion);
    /* The same without a file: what graft_model_load_adapters_source() takes. */
    graft_convert_adapter_options insist = {0};
    insist.struct_size = sizeof insist;
    insist.any_base = 1; /* of adapters in a .graft file, which know what they were made for */
    const void* data = NULL;
    size_t bytes = 0;
    if (status == GRAFT_OK) status = graft_convert_adapter_with(argv[4], argv[2], &insist, NULL, &conversion);
    if (status == GRAFT_OK) status = graft_conversion_bytes(conversion, &data, &bytes);
    if (status == GRAFT_OK) printf("%zu bytes of adapters\n", bytes);
    if (status == GRAFT_OK) graft_conversion_destroy(conversion);
  }
  /* A tokenizer's file becomes what graft_tokenizer_open() takes; this one is none. */
  if (graft_convert_tokenizer(argv[2], &conversion) == GRAFT_OK) return 1;
  graft_conversion_destroy(conversion);
  /* What a run keeps, as safetensors: of a folder that training wrote, which this one is not. */
  if (graft_export_snapshot("no run", NULL, "state.safetensors", &conversion) == GRAFT_OK) return 1;
  graft_conversion_destroy(conversion);
  return status == GRAFT_OK ? 0 : 1;
}
