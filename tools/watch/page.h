// The page that shows a run.
#pragma once

#include <string>

namespace graft::cli {

/// One HTML page without outside addresses. `title`: plain text. `run`: a JSON object, which the page holds; if
/// `is_live`, the page asks its own address for "run.json" from then on.
std::string run_page(const std::string& title, const std::string& run, bool is_live);

/// JSON that can be put into a script element: no text in it ends the element or begins a comment.
std::string json_for_html(const std::string& json);

}  // namespace graft::cli
