import type { Log } from '@tollway/chassis/log/log.ts'
import { createGrpcClient, type GrpcClient } from '@tollway/grpc/client/client.ts'
import type { WatchedClientTls } from '@tollway/grpc/client/open-client-tls.ts'
import type { Metadata } from '@tollway/grpc/server.ts'

export interface FeedConnectionOptions {
  /** The address of the management server: `host:port`. */
  readonly server: string
  /** The TLS of the connection, which `close` closes; undefined for an unencrypted connection. */
  readonly tls?: WatchedClientTls | undefined
  /** The metadata of every call. The values are secrets. */
  readonly headers?: Metadata | undefined
  readonly maxMessageBytes: number
  /** The interval of HTTP/2 pings while a call runs; undefined for none. */
  readonly keepaliveMs?: number | undefined
  /**
   * The time to wait for the answer to a ping, after which calls fail with UNAVAILABLE. Defaults to 10,000.
   */
  readonly keepaliveTimeoutMs?: number | undefined
  /** Receives the messages of the gRPC library. */
  readonly log?: Log | undefined
}

/** The flow-control window. It is large because a response contains all resources, often several MiB. */
const windowBytes = 1024 * 1024

/** The only connection to the management server, which all calls to that server use. */
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
   * Returns the client, the same at each call. The client is created only when its TLS files exist, since no
   * connection is possible without them.
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
