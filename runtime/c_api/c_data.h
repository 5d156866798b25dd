// What stands behind the handles of graft/data.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graft/data.h"
#include "platform/media/media.h"
#include "runtime/c_api/c_handles.h"
#include "runtime/data/loader.h"
#include "runtime/data/source.h"
#include "runtime/language/text_spec.h"
#include "runtime/language/text_summary.h"
#include "runtime/run_state/run_state.h"

struct graft_data_set {
  graft::c_api::Ref<graft_context> context;
  std::string fingerprint = {};  ///< of the contents before a reference was added; empty: as they are
  std::vector<std::vector<graft::ShownToken>> shown = {};
  std::vector<std::vector<graft_shown_token>> shown_rows = {};  ///< over them
  std::string spec = {};                                        ///< empty where it was not opened by one
  graft::c_api::Ref<graft_data_set> whole = {};                 ///< that it selects from; null: nothing else reads it
  std::unique_ptr<graft::data::Source> source = nullptr;
  bool is_loading = false;                         ///< a loader reads it, or of the whole a part
  std::optional<graft::TextSummary> summary = {};  ///< of text
  std::string summary_text = {};
  std::string summary_json = {};
  std::unique_ptr<graft::media::Codecs> codecs = nullptr;  ///< that the source reads with
  graft::c_api::Users users = {};

  ~graft_data_set() { source.reset(); }  // it may read with the codecs
  bool has_loader() const { return whole != nullptr ? whole->has_loader() : is_loading; }
  void set_loading(bool loads) { whole != nullptr ? whole->set_loading(loads) : void(is_loading = loads); }
};

struct graft_loader {
  ~graft_loader() {
    loader.reset();  // its thread reads the set
    if (set != nullptr) set->set_loading(false);
  }

  graft::c_api::Ref<graft_context> context;
  graft::c_api::Ref<graft_data_set> set;
  std::string fingerprint = {};  ///< of the set's contents
  std::string order = {};        ///< as a run's configuration has it
  std::unique_ptr<graft::data::Loader> loader = nullptr;
  const graft::data::Batch* pending = nullptr;  ///< given, and the step on it is not done
  std::vector<const void*> fields = {};         ///< of the last graft_loader_next
  graft::c_api::Users users = {};
};

namespace graft::c_api {

/// Fields of samples as the app gives them; invalid_argument names the one that is wrong.
Result<std::vector<data::Field>> read_fields(const graft_field* fields, std::size_t count);

/// A field of samples; the name is borrowed.
graft_tensor_info info_of(const data::Field& field);

/// invalid_argument: the trainer was made for other samples.
Status check_samples(const graft_trainer& trainer, const data::Source& source);

/// invalid_argument where it was made not to tell its data from others.
Status check_known(const graft_loader& loader);
/// What a run on the loader's data adds to its configuration, as `graft train` does.
void configure_data(const graft_loader& loader, Configuration& configuration);

}  // namespace graft::c_api
