/* Evaluations with all metrics, confusion matrices, what changed from one model to another, and what a run makes of its
 * evaluations: `graft eval` and `graft compare`. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_EVALUATE_H
#define GRAFT_EVALUATE_H

#include "graft/data.h"
#include "graft/train.h"

GRAFT_BEGIN_C

/* What a model gave on a data set. */
typedef struct graft_evaluation graft_evaluation;

/* What an evaluation is asked for. */
typedef struct graft_evaluation_options {
  size_t struct_size;
  /* Metrics besides the loss, names of graft_metric_names() separated by commas. Default: none. */
  const char* metrics;
  /* Computes the confusion matrix, of a loss of labels. Default: 0. */
  int confusion;
  /* Stores what is predicted for each sample, for graft_evaluations_compare. Default: 0. */
  int outcomes;
  /* Loss, batch, bindings and precision; by default those of graft_trainer_options_init. graft_evaluate_trainer uses
     the trainer's own. Default: none. */
  const graft_trainer_options* training;
} graft_evaluation_options;

/* Of a model's weights, on all samples of a set that has no loader. options may be NULL. invalid_argument: an unknown
   metric, or one that has no meaning for the loss. */
GRAFT_API graft_status graft_evaluate_model(graft_model* model, graft_data_set* data,
                                            const graft_evaluation_options* options, graft_evaluation** evaluation);
/* Of a trainer's weights as they are now, or of their running means where it keeps such. More than the loss and the
   accuracy needs a trainer that was made with graft_trainer_options.predictions. */
GRAFT_API graft_status graft_evaluate_trainer(graft_trainer* trainer, graft_data_set* data,
                                              const graft_evaluation_options* options, graft_evaluation** evaluation);
GRAFT_API void graft_evaluation_destroy(graft_evaluation* evaluation);
/* The names of metrics that there are, for sentences. */
GRAFT_API const char* graft_metric_names(void);
/* Sees whether these are metrics, as in "f1,auroc", each named once. *predictions, which may be NULL, becomes 1 where
   one needs a trainer with graft_trainer_options.predictions. invalid_argument says which is none. */
GRAFT_API graft_status graft_metrics_check(graft_context* context, const char* metrics, int* predictions);

/* Means over all samples; NaN where one has no meaning. */
typedef struct graft_totals {
  size_t struct_size;
  uint64_t samples;
  double loss;
  double accuracy; /* 0 to 1, as the others */
  double top5;
  double perplexity;
  double reward_margin; /* of DPO, IPO, ORPO and KTO: by how much what is preferred is rewarded more */
} graft_totals;

/* Fills totals. */
GRAFT_API graft_status graft_evaluation_totals(const graft_evaluation* evaluation, graft_totals* totals);

/* One metric. Pointers are valid as long as the evaluation. */
typedef struct graft_metric_value {
  size_t struct_size;
  const char* name;
  double value;           /* NaN where it is not defined */
  const double* by_class; /* of precision, recall, f1, iou and auroc, NaN for classes that do not occur; else NULL */
  size_t class_count;
} graft_metric_value;

/* How many metrics there are, in the order asked for; 0 for NULL. */
GRAFT_API size_t graft_evaluation_count(const graft_evaluation* evaluation);
/* not_found where index >= count. */
GRAFT_API graft_status graft_evaluation_metric(const graft_evaluation* evaluation, size_t index,
                                               graft_metric_value* value);
/* classes * classes counts: rows are what samples are, columns what they were taken for. Valid as long as the
   evaluation. not_found: it was not asked for. */
GRAFT_API graft_status graft_evaluation_confusion(const graft_evaluation* evaluation, const uint64_t** counts,
                                                  size_t* classes);
/* What number `index` of the labels stands for, as the data or else the model says; NULL where nobody says. */
GRAFT_API const char* graft_evaluation_class(const graft_evaluation* evaluation, size_t index);

/* One class in a comparison. */
typedef struct graft_class_change {
  int32_t label;
  uint64_t rows;
  uint64_t old_right;
  uint64_t new_right;
} graft_class_change;

/* How two models differ on the same data. A row is one label or number of a sample. Pointers are valid until the newer
   evaluation is compared again, or ends. */
typedef struct graft_comparison {
  size_t struct_size;
  uint64_t samples;
  uint64_t rows;
  uint64_t both_right; /* of a regression, samples that one is closer to count as right for it alone */
  uint64_t only_old;
  uint64_t only_new;
  uint64_t neither;
  double p_value;          /* McNemar's test, of a regression a sign test */
  int exact;               /* 1: of the binomial distribution; 0: of chi-squared */
  const uint64_t* changed; /* samples of which another class is predicted */
  size_t changed_count;
  const uint64_t* lost; /* samples with a row that only the old one has right */
  size_t lost_count;
  const uint64_t* gained; /* the other way round */
  size_t gained_count;
  const graft_class_change* classes;
  size_t class_count;
  int regression; /* 1: numbers are compared, not classes */
} graft_comparison;

/* Both made with `outcomes`. invalid_argument: they are not of the same data. */
GRAFT_API graft_status graft_evaluations_compare(const graft_evaluation* before, graft_evaluation* now,
                                                 graft_comparison* comparison);

/* ---- What a run makes of its evaluations ---------------------------------------------------------------------- */

/* What evaluations are watched for. graft_watch_options_init() fills in the defaults. Each metric is "loss", "accuracy"
   or one that the evaluation was asked for. */
typedef struct graft_watch_options {
  size_t struct_size;
  /* With GRAFT_PLATEAU: the learning rate falls if this metric stops improving. Default: none. */
  const char* plateau;
  /* Evaluations without improvement before the learning rate falls. Default: 10. */
  uint64_t patience;
  /* Factor of the learning rate when it falls. Default: 0.1. Range: (0, 1). */
  double factor;
  /* The verdict is to stop if this metric stops improving. Default: none. */
  const char* early_stop;
  /* Evaluations in a row without improvement before the verdict is to stop. Default: 1. Range: [1, inf). */
  uint64_t stop_patience;
  /* Least change that counts as an improvement. Default: 0. Range: [0, inf). */
  double min_delta;
  /* The verdict says whether this metric is the best so far. Default: none. */
  const char* best;
  /* The next regular snapshot holds the verdict; without this, a snapshot is taken at once. A run that resumes from an
     earlier snapshot evaluates again if graft_run_place.evaluated_at (graft/steps.h) is another step. Default: 0. */
  int no_snapshot;
} graft_watch_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_watch_options_init(graft_watch_options* options);

/* What became of an evaluation. */
typedef struct graft_verdict {
  size_t struct_size;
  int stop;
  int best;
  int slower; /* 1: the learning rate fell */
  double learning_rate;
} graft_verdict;

/* Looks at an evaluation of the trainer's state as it is now. What it notes is part of the run's state: where a
   checkpoint is open, a snapshot is taken at once. Between two steps. */
GRAFT_API graft_status graft_trainer_observe(graft_trainer* trainer, const graft_evaluation* evaluation,
                                             const graft_watch_options* options, graft_verdict* verdict);

GRAFT_END_C
#endif
