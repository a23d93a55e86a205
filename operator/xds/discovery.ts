import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Codec } from '@tollway/grpc/server.ts'
import {
  type DiscoveryRequest,
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import type { Snapshot } from './snapshot.ts'
import type { Response } from './stream.ts'

export const discoveryPath =
  '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'

/** Streams that withhold something have snapshots of their own; the rest share one. */
const maxEncodedSnapshots = 4

/** Requests are read and responses written; what is the same for every stream is encoded once. */
export function createDiscoveryCodec(): Codec<DiscoveryRequest, Response> {
  const encoded = new Map<string, Uint8Array>()

  function encodeSnapshot(snapshot: Snapshot): Uint8Array {
    const known = encoded.get(snapshot.version)
    const bytes = known ?? toBinary(DiscoveryResponseSchema, toMessage(snapshot))
    encoded.delete(snapshot.version)
    encoded.set(snapshot.version, bytes)
    for (const oldest of encoded.keys()) {
      if (encoded.size <= maxEncodedSnapshots) break
      encoded.delete(oldest)
    }
    return bytes
  }

  return {
    decode: bytes => fromBinary(DiscoveryRequestSchema, bytes),
    encode({ nonce, snapshot }) {
      // Two encoded messages, one after the other, are the message that has the fields of both.
      const ofStream = toBinary(DiscoveryResponseSchema, create(DiscoveryResponseSchema, { nonce }))
      return Buffer.concat([encodeSnapshot(snapshot), ofStream])
    },
  }
}

function toMessage({ version, typeUrl, resources }: Snapshot) {
  return create(DiscoveryResponseSchema, {
    versionInfo: version,
    typeUrl,
    resources: Array.from(resources.values(), ({ bytes }) => ({ typeUrl, value: bytes })),
  })
}
