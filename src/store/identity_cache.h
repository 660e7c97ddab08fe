#ifndef HOLDFAST_STORE_IDENTITY_CACHE_H_
#define HOLDFAST_STORE_IDENTITY_CACHE_H_

#include "base/status.h"
#include "store/model_identity.h"
#include "store/store.h"

namespace holdfast {

// ProvisionalIdentity(), not computed again for files that have not changed since the store last
// saw them. A cache that cannot be read or written only costs time.
ModelIdentity IdentifyModel(Store* store, const GgufFile& trunk, const GgufFile* sidecar,
                            const ModelConfig& config);

}  // namespace holdfast

#endif  // HOLDFAST_STORE_IDENTITY_CACHE_H_
