import { lookup } from 'node:dns/promises'
import { connect, isIPv6 } from 'node:net'
import { constants } from 'node:os'
import { getSystemErrorMessage } from 'node:util'

export interface PortAddress {
  readonly host: string
  readonly port: number
}

/** A port that cannot be bound, and the system error that `listen` would report. */
interface TakenPort<Request extends PortAddress> {
  readonly request: Request
  readonly error: NodeJS.ErrnoException
}

/**
 * Returns the requests whose port cannot be bound exclusively, in the order of `requests`. If two requests
 * name the same port, it counts as taken for the second one.
 *
 * The check binds each port without listening, so that no client can connect: the connection of such a client
 * would be reset at the end of the check. The check is also for processes that share a port (SO_REUSEPORT):
 * if a foreign process shares the port too, their own bind succeeds, and the foreign process receives a part
 * of their calls.
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

/** Returns one text for each port that cannot be bound: `GRPC_PORT: listen EADDRINUSE: …`. */
export async function findPortProblems(settings: readonly PortSetting[]): Promise<readonly string[]> {
  const taken = await findTakenPorts(settings)
  return taken.map(({ request, error }) => `${request.name}: ${error.message}`)
}

const anyIpv4 = '0.0.0.0'
const anyIpv6 = '::'

/** Returns whether a host means every address of the machine; an empty one does, as in Node's `listen`. */
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
  // Without IPv6, every address means those of IPv4; `listen` falls back in the same way.
  const error = await bindError(anyIpv6, port)
  return error?.code === 'EADDRINUSE' || error === undefined ? error : bindError(anyIpv4, port)
}

/**
 * Returns the error of binding a port; undefined if it can be bound. Node can bind without listening only for
 * a client that names its own port. This client connects to port 0, on which no server can listen: its
 * connection fails after the bind has succeeded.
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

/** Returns an error with the form of those that `listen` reports. */
function listenError(code: string, errno: number, { host, port }: PortAddress): NodeJS.ErrnoException {
  const error = new Error(`listen ${code}: ${getSystemErrorMessage(errno)} ${host}:${port}`)
  return Object.assign(error, { code, errno, syscall: 'listen' })
}
