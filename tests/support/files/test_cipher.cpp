#include "tests/support/files/test_cipher.h"

#ifdef GRAFT_HAVE_OPENSSL
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <vector>
#endif

namespace graft::test {

#ifdef GRAFT_HAVE_OPENSSL
namespace {

constexpr int kNonceBytes = 12, kTagBytes = 16;

const unsigned char* data(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* data(std::span<std::byte> bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

class OpenSslCipher final : public checkpoint::Cipher {
 public:
  explicit OpenSslCipher(std::uint8_t key) : key_(32, key) {}
  std::size_t overhead() const override { return kNonceBytes + kTagBytes; }

  Status seal(std::span<const std::byte> associated, std::span<const std::byte> plain,
              std::span<std::byte> out) override {
    const auto nonce = out.first(kNonceBytes), text = out.subspan(kNonceBytes, plain.size()), tag = out.last(kTagBytes);
    if (RAND_bytes(data(nonce), kNonceBytes) != 1) return error(Code::internal, "No random bytes.");
    if (!run(true, nonce, associated, plain, text, tag)) return error(Code::internal, "OpenSSL did not encrypt.");
    return ok_status();
  }

  Status open(std::span<const std::byte> associated, std::span<const std::byte> sealed,
              std::span<std::byte> out) override {
    std::vector<std::byte> tag(sealed.end() - kTagBytes, sealed.end());
    if (!run(false, sealed.first(kNonceBytes), associated, sealed.subspan(kNonceBytes, out.size()), out, tag)) {
      return corrupt("Its tag is wrong.");
    }
    return ok_status();
  }

 private:
  bool run(bool seal, std::span<const std::byte> nonce, std::span<const std::byte> associated,
           std::span<const std::byte> in, std::span<std::byte> out, std::span<std::byte> tag) const {
    EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
    int size = 0;
    unsigned char none = 0;
    bool ok = EVP_CipherInit_ex(context, EVP_chacha20_poly1305(), nullptr, key_.data(), data(nonce), seal ? 1 : 0) == 1;
    ok = ok && EVP_CipherUpdate(context, nullptr, &size, data(associated), static_cast<int>(associated.size())) == 1;
    if (!in.empty()) {
      ok = ok && EVP_CipherUpdate(context, data(out), &size, data(in), static_cast<int>(in.size())) == 1;
    }
    if (!seal) ok = ok && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kTagBytes, data(tag)) == 1;
    ok = ok && EVP_CipherFinal_ex(context, &none, &size) == 1;
    if (seal) ok = ok && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kTagBytes, data(tag)) == 1;
    EVP_CIPHER_CTX_free(context);
    return ok;
  }

  std::vector<unsigned char> key_;
};

}  // namespace

std::unique_ptr<checkpoint::Cipher> make_cipher(std::uint8_t key) { return std::make_unique<OpenSslCipher>(key); }
#else
std::unique_ptr<checkpoint::Cipher> make_cipher(std::uint8_t) { return nullptr; }
#endif

}  // namespace graft::test
