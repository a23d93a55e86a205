import { createGrpcClient, type GrpcClient, type GrpcClientOptions } from '@tollway/grpc/client/client.ts'
import type { WatchedClientTls } from '@tollway/grpc/client/open-client-tls.ts'

interface FeedConnectionOptions extends Omit<GrpcClientOptions, 'windowBytes' | 'connectTimeoutMs'> {
  /** The address of the management server: `host:port`. */
  readonly server: string
  /** Closed with the connection; undefined for an unencrypted connection. */
  readonly tls?: WatchedClientTls | undefined
}

/** The flow-control window, which is large because a response contains all resources, often several MiB. */
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
   * Returns the same client at each call. It is created when its TLS files exist, since no connection is
   * possible before.
   *
   * @throws Error that names the missing files
   */
  client(): GrpcClient {
    const { server, ...options } = this.#options
    const missing = options.tls?.missing() ?? ''
    if (missing !== '') throw new Error(missing)
    this.#client ??= createGrpcClient(server, { ...options, windowBytes })
    return this.#client
  }

  close(): void {
    this.#client?.close()
    this.#options.tls?.close()
  }
}
