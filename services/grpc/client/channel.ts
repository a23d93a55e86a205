import { type ChannelCredentials, Client, connectivityState, credentials } from '@grpc/grpc-js'
import { type ClientTls, toChannelCredentials } from './client-tls.ts'

export interface ChannelOptions {
  /** A longer answer fails with RESOURCE_EXHAUSTED. Defaults to 4 MiB. */
  readonly maxReceiveBytes?: number | undefined
  /**
   * The flow-control window of the connection and of each call. The default, 65,535, costs 16 round trips for
   * each MiB of an answer; set it for a trusted server with large answers.
   */
  readonly windowBytes?: number | undefined
  /** Undefined for an unencrypted connection. */
  readonly tls?: ClientTls | undefined
  /**
   * The interval of pings while a call runs; none by default. Use it only for servers that permit pings so
   * often: grpc-go permits one in 5 minutes and closes a connection with more, after which grpc-js doubles
   * the interval. TCP keepalive finds half-open connections without pings.
   */
  readonly keepaliveMs?: number | undefined
  /** Calls fail with UNAVAILABLE if a ping gets no answer in this time. Defaults to 10,000. */
  readonly keepaliveTimeoutMs?: number | undefined
  /**
   * After this time a connection attempt is abandoned, and calls that wait for it fail with UNAVAILABLE.
   * Defaults to 3,000.
   */
  readonly connectTimeoutMs?: number | undefined
}

const defaultMaxReceiveBytes = 4 * 1024 * 1024
const defaultKeepaliveTimeoutMs = 10_000
const defaultConnectTimeoutMs = 3_000

/** The delays between attempts are short, since callers have their own policies for retries. */
const initialReconnectMs = 100
const maxReconnectMs = 1_000

/** A connection that replaces an attempt to connect that takes too long. */
export class Channel {
  readonly #target: string
  readonly #options: ChannelOptions
  readonly #connectTimeoutMs: number
  readonly #abandoned = new WeakSet<Client>()
  #client: Client
  #connectTimeout: NodeJS.Timeout | undefined

  constructor(target: string, options: ChannelOptions) {
    this.#target = target
    this.#options = options
    this.#connectTimeoutMs = options.connectTimeoutMs ?? defaultConnectTimeoutMs
    this.#client = createClient(target, options)
  }

  /** Returns the client for a call. Unless it is connected, starts the timeout of the attempt. */
  open(): Client {
    if (this.#connectTimeout === undefined && readState(this.#client) !== connectivityState.READY) {
      this.#connectTimeout = setTimeout(() => this.#abandonAttempt(), this.#connectTimeoutMs).unref()
    }
    return this.#client
  }

  /** Returns why all calls of this client have failed, or undefined if their own errors say it. */
  findConnectFailure(client: Client): string | undefined {
    if (!this.#abandoned.has(client)) return undefined
    return `no connection to ${this.#target} within ${this.#connectTimeoutMs} ms`
  }

  close(): void {
    clearTimeout(this.#connectTimeout)
    this.#client.close()
  }

  /**
   * Replaces a client that is not connected in time. grpc-js waits as long as the kernel, more than a minute
   * if an address was removed between two attempts, although the name may resolve to another one by then. The
   * state does not show such an attempt: after a first failure, it is TRANSIENT_FAILURE until it is
   * connected.
   */
  #abandonAttempt(): void {
    this.#connectTimeout = undefined
    const state = readState(this.#client)
    if (state === connectivityState.READY || state === connectivityState.IDLE) return
    const stuck = this.#client
    this.#client = createClient(this.#target, this.#options)
    this.#abandoned.add(stuck)
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
 * The kernel probes an idle connection after this time, then each second; after 10 probes without an answer
 * the connection fails.
 */
const tcpKeepaliveIdleMs = 15_000

/**
 * grpc-js has no option for TCP keepalive, and gives access to its sockets only in the connector of the
 * credentials.
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
