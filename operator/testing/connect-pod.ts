import type { TestContext } from 'node:test'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import {
  DiscoveryRequestSchema,
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { discoveryPath } from '../xds/discovery.ts'

type Request = MessageInitShape<typeof DiscoveryRequestSchema>

const codec = {
  encode: (request: Request) => toBinary(DiscoveryRequestSchema, create(DiscoveryRequestSchema, request)),
  decode: (bytes: Uint8Array): DiscoveryResponse => fromBinary(DiscoveryResponseSchema, bytes),
}

interface PlayedPod {
  readonly address: string
  readonly typeUrl: string
  readonly uid: string
  readonly tls?: ClientTls
  /** The content of the resource that the pod rejects. */
  readonly rejects?: string
  /** The version that the pod claims to have in the first request. */
  readonly claim?: string
  /** Called with the values of all resources in each response. */
  readonly onResources?: (values: readonly Uint8Array[]) => void
}

/** Connects a pod to a feed. It acknowledges everything except the resource that it rejects. */
export function connectPod(
  t: Pick<TestContext, 'after'>,
  { address, typeUrl, uid, tls, rejects = '!', claim = '', onResources }: PlayedPod,
) {
  const client = createGrpcClient(address, tls && { tls })
  const stopping = new AbortController()
  const stop = () => {
    stopping.abort()
    client.close()
  }
  t.after(stop)
  const node = { id: uid, metadata: { uid, pod: `${uid}-pod`, namespace: 'shop' } }
  const call = client.bidi<Request, DiscoveryResponse>(discoveryPath, codec, { signal: stopping.signal })
  async function run(): Promise<void> {
    call.write({ typeUrl, node, versionInfo: claim })
    for await (const { versionInfo, nonce, resources } of call.messages) {
      onResources?.(resources.map(({ value }) => value))
      const bad = resources.map(({ value }) => Buffer.from(value).toString()).find(text => text === rejects)
      const errorDetail = { code: 3, message: `${bad?.split('=')[0]}: is bad` }
      const answer = bad === undefined ? { versionInfo } : { errorDetail }
      call.write({ typeUrl, node, responseNonce: nonce, ...answer })
    }
  }
  run().catch(() => {})
  return { stop }
}
