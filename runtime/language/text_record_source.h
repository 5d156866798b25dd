// Samples of the records of a JSON file. Tokens of small files stay in memory; of larger ones a sample's records are
// read and encoded again whenever it is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/data/source.h"
#include "runtime/language/text_encoder.h"
#include "runtime/language/text_layout.h"
#include "runtime/language/text_records.h"
#include "runtime/language/text_summary.h"

namespace graft {

struct RecordSamples {
  std::int64_t length = 128;     ///< tokens of a sample
  bool packed = true;            ///< as many texts to a sample as fit, each whole
  bool sequence_starts = false;  ///< that field is there although no sample holds several
  OnLong on_long = OnLong::by_kind;
  std::uint64_t kept_bytes = std::uint64_t{256} << 20;  ///< of tokens, in memory
};

/// The tokens of all records, of which the first ones are kept.
class TextStore {
 public:
  TextStore(RecordFile file, TextEncoder encoder, std::uint64_t kept_bytes)
      : file_(std::move(file)), encoder_(std::move(encoder)), kept_bytes_(kept_bytes) {}

  const RecordFile& file() const { return file_; }
  const TextEncoder& encoder() const { return encoder_; }
  /// Errors name the record.
  Result<TokenText> encode(std::uint64_t record) const;
  /// Records in their order; they are kept as long as there is room.
  void keep(const TokenText& text);
  /// Tokens of a piece, and which of them are learned: never the first. corrupt: the file has changed.
  Status read(const TextPiece& piece, TokenText& out) const;

 private:
  RecordFile file_;
  TextEncoder encoder_;
  std::uint64_t kept_bytes_;
  bool is_full_ = false;
  std::vector<text::TokenId> tokens_;
  std::vector<bool> learned_;
  std::vector<std::uint64_t> ends_;  ///< of records in them
};

/// "tokens" i32 [length], where asked for or needed "sequence_starts" i32 [length], and "label" i32 [length], as
/// text_source() has them.
class TextRecordSource final : public data::Source {
 public:
  /// Reads and encodes every record once. Errors name the record; none where a sample comes of any.
  static Result<std::unique_ptr<TextRecordSource>> create(RecordFile file, TextEncoder encoder,
                                                          const RecordSamples& options);

  const std::vector<data::Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return layout_.samples(); }
  Result<bool> read(std::uint64_t& position, data::SampleOut out) override;

  const TextSummary& summary() const { return summary_; }

 private:
  TextRecordSource(TextStore store, const RecordSamples& options) : store_(std::move(store)), options_(options) {}
  Status index();
  Status add(std::uint64_t record, const TokenText& text, std::vector<TextPiece>& pieces);
  bool add_piece(TextPiece piece, const TokenText& text, std::vector<TextPiece>& pieces);
  void drop(TextSummary::Reason reason, std::uint64_t record);

  TextStore store_;
  RecordSamples options_;
  TextLayout layout_;
  TextSummary summary_;
  std::vector<data::Field> fields_;
};

}  // namespace graft
