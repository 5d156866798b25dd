/* A converter with the installed package: convert SOURCE MODEL.graft */
#include <graft/convert.h>
#include <stdio.h>

int main(int argc, char** argv) {
  graft_conversion* conversion = NULL;
  graft_convert_options options = {0};
  graft_status status;
  if (argc != 3) return 2;
  options.struct_size = sizeof options;
  status = graft_convert(argv[1], &options, argv[2], &conversion);
  printf("%s", graft_conversion_report(conversion));
  if (status == GRAFT_OK && graft_conversion_report_json(conversion)[0] != '{') return 1; /* the same, for programs */
  if (status != GRAFT_OK) fprintf(stderr, "%s\n", graft_conversion_message(conversion));
  graft_conversion_destroy(conversion);
  return status == GRAFT_OK ? 0 : 1;
}
