#ifndef HOLDFAST_SERVER_TLS_CONTEXT_H_
#define HOLDFAST_SERVER_TLS_CONTEXT_H_

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/status.h"

namespace holdfast {

// TLS 1.2 and newer with this certificate chain and private key (PEM, without passphrase).
// kInvalidArgument naming the file and OpenSSL's reason.
Result<std::shared_ptr<boost::asio::ssl::context>> LoadTlsContext(const std::string& cert_path,
                                                                  const std::string& key_path);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_TLS_CONTEXT_H_
