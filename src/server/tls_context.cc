#include "server/tls_context.h"

#include <fmt/format.h>
#include <openssl/ssl.h>

namespace holdfast {

namespace ssl = boost::asio::ssl;

Result<std::shared_ptr<ssl::context>> LoadTlsContext(const std::string& cert_path,
                                                     const std::string& key_path) {
  const auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  boost::system::error_code error;
  const auto failed = [&](const char* flag, const std::string& path) {
    return InvalidArgumentError(fmt::format("{} {}: {}", flag, path, error.message()));
  };
  context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                           ssl::context::no_sslv3 | ssl::context::no_tlsv1 |
                           ssl::context::no_tlsv1_1 | ssl::context::no_compression,
                       error);
  if (error) return failed("TLS", "options");
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);  // idle connections
  // A key with a passphrase is refused; OpenSSL would ask the terminal.
  context->set_password_callback(
      [](size_t, ssl::context::password_purpose) { return std::string(); }, error);
  context->use_certificate_chain_file(cert_path, error);
  if (error) return failed("--tls-cert", cert_path);
  context->use_private_key_file(key_path, ssl::context::pem, error);
  if (error) return failed("--tls-key", key_path);
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return InvalidArgumentError(
        fmt::format("--tls-key {} does not belong to --tls-cert {}", key_path, cert_path));
  }
  return context;
}

}  // namespace holdfast
