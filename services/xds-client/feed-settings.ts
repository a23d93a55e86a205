import {
  boolean,
  decimal,
  durationAtLeast,
  hostPort,
  integer,
  pairs,
  type SettingKind,
  type SettingValues,
  settingsTable,
  text,
} from '@tollway/chassis/settings.ts'
import { reservedNames } from '@tollway/grpc/reserved-names.ts'

/**
 * Headers such as authorization, as `k1:v1,k2:v2`. Values are secrets: an error of the transport would quote
 * an invalid one, so they are validated here.
 */
const additionalHeaders: SettingKind<ReadonlyMap<string, readonly [string]>> = {
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

/** Returns whether the name is valid. Values of `-bin` names are binary, which the setting cannot express. */
function isHeaderName(name: string): boolean {
  return /^[0-9a-z_.-]+$/.test(name) && !/^grpc-|-bin$/.test(name) && !reservedNames.has(name)
}

/** For intervals between attempts: shorter ones would keep the process busy. */
const atLeast10Ms = durationAtLeast(10)

/**
 * An interval of pings. Other gRPC clients allow no less than 10 s
 * (https://github.com/grpc/proposal/blob/master/A8-client-side-keepalive.md). The operator's feed permits
 * more pings, which detect a stopped operator sooner.
 */
const atLeast1S = durationAtLeast(1_000)

const pingInterval: SettingKind<number> = {
  allowed: `0, or ${atLeast1S.allowed}`,
  parse: value => (value === '0' ? 0 : atLeast1S.parse(value)),
}

/** The settings of a feed. They have the names of envoyproxy/ratelimit where it has the setting. */
export const feedSettings = settingsTable({
  xdsNodeId: {
    name: 'CONFIG_GRPC_XDS_NODE_ID',
    kind: text,
    fallback: 'default',
    help: 'The identity of this process for the management server.',
  },
  xdsNodeMetadata: {
    name: 'CONFIG_GRPC_XDS_NODE_METADATA',
    kind: pairs,
    fallback: '',
    help: 'Further properties of this process, as strings in node.metadata.',
  },
  xdsServer: {
    name: 'CONFIG_GRPC_XDS_SERVER_URL',
    kind: hostPort,
    fallback: 'localhost:18000',
    help: 'The address of the management server.',
  },
  xdsUseTls: {
    name: 'CONFIG_GRPC_XDS_SERVER_USE_TLS',
    kind: boolean,
    fallback: 'false',
    help: 'Connect to the management server with TLS.',
  },
  xdsCertFile: {
    name: 'CONFIG_GRPC_XDS_CLIENT_TLS_CERT',
    kind: text,
    fallback: '',
    help: 'The file of the client certificate.',
  },
  xdsKeyFile: {
    name: 'CONFIG_GRPC_XDS_CLIENT_TLS_KEY',
    kind: text,
    fallback: '',
    help: 'The file of the private key of the client certificate.',
  },
  xdsCaFile: {
    name: 'CONFIG_GRPC_XDS_SERVER_TLS_CACERT',
    kind: text,
    fallback: '',
    help:
      'The file of the certificate authorities of the server. Empty means the authorities that Node ' +
      'trusts.',
  },
  xdsServerSan: {
    name: 'CONFIG_GRPC_XDS_SERVER_TLS_SAN',
    kind: text,
    fallback: '',
    help: 'The name that the certificate of the server must have, instead of its host.',
  },
  xdsHeaders: {
    name: 'CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS',
    kind: additionalHeaders,
    fallback: '',
    help: 'Additional headers of the requests, such as authorization, as k1:v1,k2:v2.',
    secret: true,
  },
  lastGoodFile: {
    name: 'CONFIG_LAST_GOOD_FILE',
    kind: text,
    fallback: '',
    help: 'The file of the last good configuration, for a start without the management server.',
  },
  xdsConnectRetryMs: {
    name: 'CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL',
    kind: atLeast10Ms,
    fallback: '3s',
    help: 'The delay between attempts to connect until the first connection is established.',
  },
  xdsBackoffJitter: {
    name: 'XDS_CLIENT_BACKOFF_JITTER',
    kind: boolean,
    fallback: 'true',
    help: 'Add jitter to the delays between streams.',
  },
  xdsBackoffInitialMs: {
    name: 'XDS_CLIENT_BACKOFF_INITIAL_INTERVAL',
    kind: atLeast10Ms,
    fallback: '10s',
    help:
      'The first delay after the end of a stream. A stream that lasts this long, and at least 10s, ' +
      'has no delay.',
  },
  xdsBackoffMaxMs: {
    name: 'XDS_CLIENT_BACKOFF_MAX_INTERVAL',
    kind: atLeast10Ms,
    fallback: '60s',
    help: 'The maximum delay.',
  },
  xdsBackoffFactor: {
    name: 'XDS_CLIENT_BACKOFF_RANDOM_FACTOR',
    kind: decimal(0, 10),
    fallback: '0.5',
    help: 'The growth of the delay: the next delay is the previous one, multiplied by 1 plus this number.',
  },
  xdsKeepaliveMs: {
    name: 'XDS_CLIENT_KEEPALIVE_INTERVAL',
    kind: pingInterval,
    fallback: '0',
    help:
      'The interval of HTTP/2 pings to the management server. 0 disables pings. Servers close connections with ' +
      'more pings than they permit: grpc-go permits one in 5m by default. TCP keepalive is always enabled.',
  },
  xdsKeepaliveTimeoutMs: {
    name: 'XDS_CLIENT_KEEPALIVE_TIMEOUT',
    kind: atLeast1S,
    fallback: '10s',
    help:
      'The time without an answer to a ping after which the connection to the management server is ' +
      'closed.',
  },
  xdsMaxMessageBytes: {
    name: 'XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES',
    kind: integer(0, 1 << 30),
    fallback: '0',
    help: 'The maximum size of a configuration in bytes. 0 means 64 MiB.',
  },
})

export type FeedSettings = SettingValues<typeof feedSettings>
