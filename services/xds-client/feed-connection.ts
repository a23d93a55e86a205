import type { Log } from '@tollway/chassis/log/log.ts'
import { createGrpcClient, type GrpcClient } from '@tollway/grpc/client/client.ts'
import type { WatchedClientTls } from '@tollway/grpc/client/open-client-tls.ts'
import type { Metadata } from '@tollway/grpc/server.ts'

export interface FeedConnectionOptions {
  /** `host:port`. */
  readonly server: string
  /** Without it, calls are not encrypted. Closed with the connection. */
  readonly tls?: WatchedClientTls | undefined
  /** Sent with every call. Their values are secrets. */
  readonly headers?: Metadata | undefined
  readonly maxMessageBytes: number
  /** The interval of HTTP/2 pings while a call runs; no pings when left out. */
  readonly keepaliveMs?: number | undefined
  /** Calls become UNAVAILABLE when a ping has no answer for this long; 10,000 when left out. */
  readonly keepaliveTimeoutMs?: number | undefined
  /** Receives the messages of the gRPC library. */
  readonly log?: Log | undefined
}

/** A response has all resources, often several MiB. */
const windowBytes = 1024 * 1024

/** The one connection to the management server, for all calls to it. */
export class FeedConnection {
  /** `host:port`. */
  readonly server: string
  readonly #options: FeedConnectionOptions
  #client: GrpcClient | undefined

  constructor(options: FeedConnectionOptions) {
    this.server = options.server
    this.#options = options
  }

  /**
   * Returns the client, always the same. It is created when its files are available: no connection is
   * attempted without a certificate or an authority.
   *
   * @throws Error that names the files that are missing
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
