import { lookup } from 'node:dns/promises'
import { connect, isIPv6 } from 'node:net'
import { constants } from 'node:os'
import { getSystemErrorMessage } from 'node:util'

export interface PortAddress {
  readonly host: string
  readonly port: number
}

/** A port that cannot be bound, with the error that `listen` would report. */
interface TakenPort<Request extends PortAddress> {
  readonly request: Request
  readonly error: NodeJS.ErrnoException
}

/**
 * Returns the requests, in order, whose port cannot be bound exclusively; of two requests for one port, the
 * second.
 *
 * Each port is bound without listening, since a client that connects would be reset at the end of the check.
 * Processes that share a port (SO_REUSEPORT) need the check too: if a foreign process shares it, their bind
 * succeeds, and that process receives a part of their calls.
 */
export async function findTakenPorts<Request extends PortAddress>(
  requests: readonly Request[],
): Promise<readonly TakenPort<Request>[]> {
  const errors = await Promise.all(requests.map(findBindError))
  return requests.flatMap((request, index) => {
    const isDouble = requests.slice(0, index).some(other => overlap(other, request))
    const error =
      errors[index] ??
      (isDouble ? listenError('EADDRINUSE', -constants.errno.EADDRINUSE, request) : undefined)
    return error === undefined ? [] : [{ request, error }]
  })
}

export interface PortSetting extends PortAddress {
  /** The name of the setting: `GRPC_PORT`. */
  readonly name: string
}

/** Resolves with a line for each port that cannot be bound: `GRPC_PORT: listen EADDRINUSE: …`. */
export async function findPortProblems(settings: readonly PortSetting[]): Promise<readonly string[]> {
  const taken = await findTakenPorts(settings)
  return taken.map(({ request, error }) => `${request.name}: ${error.message}`)
}

const anyIpv4 = '0.0.0.0'
const anyIpv6 = '::'

/** An empty host means every address, as in Node's `listen`. */
function isEveryAddress(host: string): boolean {
  return host === '' || host === anyIpv4 || host === anyIpv6
}

function overlap(one: PortAddress, other: PortAddress): boolean {
  if (one.port !== other.port || one.port === 0) return false
  return one.host === other.host || isEveryAddress(one.host) || isEveryAddress(other.host)
}

async function findBindError(request: PortAddress): Promise<NodeJS.ErrnoException | undefined> {
  const { host, port } = request
  if (host !== '') {
    try {
      return await bindError((await lookup(host)).address, port)
    } catch (error) {
      return error as NodeJS.ErrnoException
    }
  }
  // Without IPv6, `listen` falls back to every IPv4 address, too.
  const error = await bindError(anyIpv6, port)
  return error?.code === 'EADDRINUSE' || error === undefined ? error : bindError(anyIpv4, port)
}

/**
 * Returns undefined if the port can be bound. Node can bind without listening only for a client that names
 * its own port. The client connects to port 0, on which no server can listen, so it fails after the bind.
 */
function bindError(localAddress: string, localPort: number): Promise<NodeJS.ErrnoException | undefined> {
  const loopback = isIPv6(localAddress) ? '::1' : '127.0.0.1'
  const host = isEveryAddress(localAddress) ? loopback : localAddress
  return new Promise(resolve => {
    const client = connect({ host, port: 0, localAddress, localPort })
    client.once('connect', () => client.destroy())
    client.once('error', (error: NodeJS.ErrnoException) => {
      const { syscall, code = '', errno = 0 } = error
      const address = { host: localAddress, port: localPort }
      resolve(syscall === 'bind' ? listenError(code, errno, address) : undefined)
    })
    client.once('close', () => resolve(undefined))
  })
}

/** Returns an error of the form that the errors of `listen` have. */
function listenError(code: string, errno: number, { host, port }: PortAddress): NodeJS.ErrnoException {
  const error = new Error(`listen ${code}: ${getSystemErrorMessage(errno)} ${host}:${port}`)
  return Object.assign(error, { code, errno, syscall: 'listen' })
}
