import { type ChannelCredentials, Client, connectivityState, credentials } from '@grpc/grpc-js'
import { type ClientTls, toChannelCredentials } from './client-tls.ts'

export interface ChannelOptions {
  /** A longer answer is RESOURCE_EXHAUSTED. Defaults to 4 MiB. */
  readonly maxReceiveBytes?: number | undefined
  /**
   * The flow-control window of the connection and of each call, in bytes. Defaults to 65,535, with which each
   * MiB of an answer costs 16 round trips. Set it for a trusted server with large answers.
   */
  readonly windowBytes?: number | undefined
  /** Calls are encrypted only if this is present. */
  readonly tls?: ClientTls | undefined
  /**
   * The interval of HTTP/2 pings while a call runs; no pings when left out. Servers limit pings: grpc-go
   * permits one in 5 minutes by default and closes a connection that exceeds it, after which the interval
   * doubles. Set it only for servers that permit it. TCP keepalive finds half-open connections without pings.
   */
  readonly keepaliveMs?: number | undefined
  /** Calls become UNAVAILABLE when a ping has no answer for this long. Defaults to 10,000. */
  readonly keepaliveTimeoutMs?: number | undefined
  /**
   * A connection that takes longer is abandoned, and the calls that wait for it are UNAVAILABLE. Defaults to
   * 3,000.
   */
  readonly connectTimeoutMs?: number | undefined
}

const defaultMaxReceiveBytes = 4 * 1024 * 1024
const defaultKeepaliveTimeoutMs = 10_000
const defaultConnectTimeoutMs = 3_000

/** Short delays, since callers have their own policies for retries. */
const initialReconnectMs = 100
const maxReconnectMs = 1_000

/** The connection of a client. */
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

  /** Returns the library's client for a call, and limits the time of its connection attempt. */
  open(): Client {
    if (this.#connectTimeout === undefined && readState(this.#client) !== connectivityState.READY) {
      const { connectTimeoutMs = defaultConnectTimeoutMs } = this.#options
      this.#connectTimeout = setTimeout(() => this.#abandonAttempt(), connectTimeoutMs).unref()
    }
    return this.#client
  }

  /** Rejects later calls. Running calls continue. */
  close(): void {
    clearTimeout(this.#connectTimeout)
    this.#client.close()
  }

  /**
   * The library waits as long as the kernel does: an address that was removed between two attempts costs more
   * than a minute of silence, although the name may resolve to another address by then. The library does not
   * report it either: after a first failure the channel is in TRANSIENT_FAILURE until it is connected.
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

/** Running calls of the library's client continue when it is closed. */
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
 * The kernel probes a connection after this time without a segment. Node sends the next probes after 1 s
 * each, and the connection fails after 10 probes without an answer: 25 s in all.
 */
const tcpKeepaliveIdleMs = 15_000

/**
 * Enables TCP keepalive on each connection that a channel opens with these credentials. grpc-js has no option
 * for it; its sockets are only accessible in the connector of the credentials.
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
