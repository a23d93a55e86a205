import { pairs, type SettingKind } from '@tollway/chassis/settings.ts'
import { reservedNames } from '@tollway/grpc/reserved-names.ts'

/**
 * Headers of every request to the management server, `k1:v1,k2:v2`, such as an authorization. Values are
 * secrets. They are validated here, since an error of the transport would quote them.
 */
export const additionalHeaders: SettingKind<ReadonlyMap<string, readonly [string]>> = {
  allowed:
    'a list such as name:value,other:value; names of letters, digits, _, - and ., without those that ' +
    'belong to gRPC, each once; values of printable ASCII',
  parse(text) {
    const written = pairs.parse(text)
    if (written === undefined) return undefined
    const headers = new Map<string, readonly [string]>()
    for (const [writtenName, value] of written) {
      const name = writtenName.toLowerCase()
      if (!isHeaderName(name) || headers.has(name) || !/^[\x20-\x7e]+$/.test(value)) return undefined
      headers.set(name, [value])
    }
    return headers
  },
}

/** Names that end in `-bin` have binary values, which this list cannot express. */
function isHeaderName(name: string): boolean {
  return /^[0-9a-z_.-]+$/.test(name) && !/^grpc-|-bin$/.test(name) && !reservedNames.has(name)
}
