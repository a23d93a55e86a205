import { type ChannelCredentials, Client, connectivityState, credentials } from '@grpc/grpc-js'
import { type ClientTls, toChannelCredentials } from './client-tls.ts'

export interface ChannelOptions {
  /** The largest answer message in bytes; a longer one fails with RESOURCE_EXHAUSTED. Defaults to 4 MiB. */
  readonly maxReceiveBytes?: number | undefined
  /**
   * The flow-control window of the connection and of each call, in bytes. The default, 65,535, costs 16 round
   * trips for each MiB of an answer. Set it for a trusted server with large answers.
   */
  readonly windowBytes?: number | undefined
  /** The TLS of the connection; undefined for an unencrypted one. */
  readonly tls?: ClientTls | undefined
  /**
   * The interval of HTTP/2 pings while a call runs; without it, no pings are sent. Set it only for servers
   * that permit pings so often: by default grpc-go permits one in 5 minutes and closes a connection that
   * exceeds it, after which grpc-js doubles the interval. TCP keepalive finds half-open connections without
   * pings.
   */
  readonly keepaliveMs?: number | undefined
  /**
   * The time to wait for the answer to a ping, after which calls fail with UNAVAILABLE. Defaults to 10,000.
   */
  readonly keepaliveTimeoutMs?: number | undefined
  /**
   * The time that a connection attempt may take. After it, the attempt is abandoned, and calls that wait for
   * it fail with UNAVAILABLE. Defaults to 3,000.
   */
  readonly connectTimeoutMs?: number | undefined
}

const defaultMaxReceiveBytes = 4 * 1024 * 1024
const defaultKeepaliveTimeoutMs = 10_000
const defaultConnectTimeoutMs = 3_000

/**
 * The delays between connection attempts. They are short, since callers have their own policies for retries.
 */
const initialReconnectMs = 100
const maxReconnectMs = 1_000

/**
 * The connection of a client to one target. A connection attempt that takes too long is replaced by a new
 * one.
 */
export class Channel {
  readonly #target: string
  readonly #options: ChannelOptions
  #client: Client
  #connectTimeout: NodeJS.Timeout | undefined

  constructor(target: string, options: ChannelOptions) {
    this.#target = target
    this.#options = options
    this.#client = createClient(target, options)
  }

  /**
   * Returns the client of grpc-js for a call. Unless it is connected, starts the timeout of the connection
   * attempt.
   */
  open(): Client {
    if (this.#connectTimeout === undefined && readState(this.#client) !== connectivityState.READY) {
      const { connectTimeoutMs = defaultConnectTimeoutMs } = this.#options
      this.#connectTimeout = setTimeout(() => this.#abandonAttempt(), connectTimeoutMs).unref()
    }
    return this.#client
  }

  /** Makes later calls fail. Running calls continue. */
  close(): void {
    clearTimeout(this.#connectTimeout)
    this.#client.close()
  }

  /**
   * Replaces a client that is not connected in time. grpc-js waits as long as the kernel: if an address was
   * removed between two attempts, that is more than a minute without an error, although the name may resolve
   * to another address by then. The channel's state does not show such an attempt: after a first failure, it
   * is TRANSIENT_FAILURE until the channel is connected.
   */
  #abandonAttempt(): void {
    this.#connectTimeout = undefined
    const state = readState(this.#client)
    if (state === connectivityState.READY || state === connectivityState.IDLE) return
    const stuck = this.#client
    this.#client = createClient(this.#target, this.#options)
    stuck.close()
  }
}

/** Creates a client of grpc-js. When it is closed, its running calls continue. */
function createClient(target: string, options: ChannelOptions): Client {
  const { tls } = options
  const channelCredentials = tls ? toChannelCredentials(tls) : credentials.createInsecure()
  return new Client(target, withTcpKeepalive(channelCredentials), {
    'grpc.max_receive_message_length': options.maxReceiveBytes ?? defaultMaxReceiveBytes,
    'grpc.max_send_message_length': -1,
    ...(options.windowBytes !== undefined && { 'grpc-node.flow_control_window': options.windowBytes }),
    ...(options.keepaliveMs !== undefined && { 'grpc.keepalive_time_ms': options.keepaliveMs }),
    'grpc.keepalive_timeout_ms': options.keepaliveTimeoutMs ?? defaultKeepaliveTimeoutMs,
    'grpc.keepalive_permit_without_calls': 0,
    ...(tls && { 'grpc.ssl_target_name_override': tls.serverName }),
    'grpc.initial_reconnect_backoff_ms': initialReconnectMs,
    'grpc.max_reconnect_backoff_ms': maxReconnectMs,
    'grpc.dns_min_time_between_resolutions_ms': maxReconnectMs,
    'grpc.service_config_disable_resolution': 1,
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_http_proxy': 0,
    'grpc.enable_channelz': 0,
  })
}

const readState = (client: Client) => client.getChannel().getConnectivityState(false)

/**
 * The idle time after which the kernel probes a connection. Node sets the next probes 1 s apart, and the
 * connection fails after 10 probes without an answer: 25 s in all.
 */
const tcpKeepaliveIdleMs = 15_000

/**
 * Enables TCP keepalive on each connection that a channel opens with these credentials. grpc-js has no option
 * for that, and gives access to its sockets only in the connector of the credentials.
 */
function withTcpKeepalive(credentials: ChannelCredentials): ChannelCredentials {
  const createConnector = credentials._createSecureConnector.bind(credentials)
  credentials._createSecureConnector = (...options) => {
    const connector = createConnector(...options)
    const connect = connector.connect.bind(connector)
    connector.connect = socket => connect(socket.setKeepAlive(true, tcpKeepaliveIdleMs))
    return connector
  }
  return credentials
}
