import type { Log } from '@tollway/chassis/log/log.ts'
import { createGrpcClient, type GrpcClient } from '@tollway/grpc/client/client.ts'
import type { WatchedClientTls } from '@tollway/grpc/client/open-client-tls.ts'
import type { Metadata } from '@tollway/grpc/server.ts'

interface FeedConnectionOptions {
  /** The address of the management server: `host:port`. */
  readonly server: string
  /** `close` closes it. Undefined for an unencrypted connection. */
  readonly tls?: WatchedClientTls | undefined
  /** The metadata of every call. The values are secrets. */
  readonly headers?: Metadata | undefined
  readonly maxMessageBytes: number
  /** See `ChannelOptions`. */
  readonly keepaliveMs?: number | undefined
  readonly keepaliveTimeoutMs?: number | undefined
  /** Receives the messages of the gRPC library. */
  readonly log?: Log | undefined
}

/** Large because a response contains all resources, often several MiB. */
const windowBytes = 1024 * 1024

/** All calls to the management server use this connection. */
export class FeedConnection {
  /** The address of the management server: `host:port`. */
  readonly server: string
  readonly #options: FeedConnectionOptions
  #client: GrpcClient | undefined

  constructor(options: FeedConnectionOptions) {
    this.server = options.server
    this.#options = options
  }

  /**
   * The same client at each call. It is created when its TLS files exist, since no connection is possible
   * before.
   *
   * @throws Error that names the missing files
   */
  client(): GrpcClient {
    const { server, tls, headers, maxMessageBytes, keepaliveMs, keepaliveTimeoutMs, log } = this.#options
    const missing = tls?.missing() ?? ''
    if (missing !== '') throw new Error(missing)
    this.#client ??= createGrpcClient(server, {
      maxReceiveBytes: maxMessageBytes,
      windowBytes,
      metadata: headers,
      tls,
      keepaliveMs,
      keepaliveTimeoutMs,
      log,
    })
    return this.#client
  }

  close(): void {
    this.#client?.close()
    this.#options.tls?.close()
  }
}
