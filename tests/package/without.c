/* Of a library made with GRAFT_WITHOUT=all: asks for each feature, and sees it refused by name.
   usage: without_c MODEL */
#include <graft/distribute.h>
#include <graft/graft.h>
#include <stdio.h>
#include <string.h>

#define SAMPLES 4

static graft_context* context = NULL;
static graft_model* model = NULL;

/* Whether the refusal names the feature. */
static int names(graft_status status, const char* feature) {
  char wanted[64];
  snprintf(wanted, sizeof wanted, "(GRAFT_WITHOUT=%s)", feature);
  printf("%s: %s\n", feature, graft_message(context));
  if (status == GRAFT_UNSUPPORTED && strstr(graft_message(context), wanted) != NULL) return 1;
  fprintf(stderr, "%s: status %d, \"%s\"\n", feature, (int)status, graft_message(context));
  return 0;
}

static graft_trainer_options plain(void) {
  graft_trainer_options options = {0};
  options.struct_size = sizeof options;
  graft_trainer_options_init(&options, GRAFT_ADAMW);
  options.batch = SAMPLES;
  return options;
}

static int refuses(graft_trainer_options options, const char* feature) {
  graft_trainer* trainer = NULL;
  const int refused = names(graft_trainer_create(model, &options, &trainer), feature);
  graft_trainer_destroy(trainer);
  return refused;
}

static int refuses_session(graft_session_options options, const char* feature) {
  const graft_binding batch = {"batch", SAMPLES};
  options.struct_size = sizeof options;
  options.bindings = &batch;
  options.binding_count = 1;
  graft_session* session = NULL;
  const int refused = names(graft_session_create(model, &options, &session), feature);
  graft_session_destroy(session);
  return refused;
}

static graft_status exchange(void* user, size_t parts, const void* const* out, const size_t* out_bytes, void* const* in,
                             const size_t* in_bytes, uint64_t deadline_ms, char* message, size_t message_bytes) {
  (void)user, (void)parts, (void)out, (void)out_bytes, (void)in, (void)in_bytes, (void)deadline_ms;
  snprintf(message, message_bytes, "nobody is there");
  return GRAFT_IO_ERROR;
}

static void leave(void* user, graft_status why, const char* message) { (void)user, (void)why, (void)message; }

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (graft_context_create(NULL, &context) != GRAFT_OK) {
    fprintf(stderr, "context: %s\n", graft_message(context));
    graft_context_destroy(context);
    return 77; /* no device here: skipped */
  }
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) {
    fprintf(stderr, "load: %s\n", graft_message(context));
    return 1;
  }
  graft_group group = {0};
  group.struct_size = sizeof group;
  group.size = 2;
  group.exchange = exchange;
  group.leave = leave;

  graft_trainer_options budget = plain(), groups = plain(), halves = plain(), scaled = plain(), losses = plain(),
                        terms = plain(), teacher = plain(), optimizers = plain(), ema = plain(), recovery = plain();
  budget.budget = 1 << 20;
  groups.group = &group;
  halves.precision = GRAFT_PRECISION_F16;
  scaled.loss_scale = 1024;
  losses.loss = GRAFT_LOSS_MSE;
  terms.losses = "ce+0.5*ce";
  teacher.teacher = model;
  optimizers.optimizer = GRAFT_LION;
  ema.ema = 0.9;
  recovery.recover_device = 1;
  int good = refuses(budget, "budgets") && refuses(groups, "groups") && refuses(halves, "halves") &&
             refuses(scaled, "halves") && refuses(losses, "losses") && refuses(terms, "losses") &&
             refuses(teacher, "losses") && refuses(optimizers, "optimizers") && refuses(ema, "optimizers") &&
             refuses(recovery, "recovery");
  graft_session_options small = {0}, half = {0}, reopened = {0};
  small.budget = 1 << 20;
  half.precision = GRAFT_PRECISION_BF16;
  reopened.recover_device = 1;
  good = good && refuses_session(small, "budgets") && refuses_session(half, "halves") &&
         refuses_session(reopened, "recovery");
  graft_model_destroy(model);
  graft_context_destroy(context);
  return good ? 0 : 1;
}
