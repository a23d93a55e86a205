import { connect } from 'node:net'
import { findPortProblems, type PortSetting } from '@tollway/chassis/net/taken-ports.ts'
import { findSocketPathProblem } from '@tollway/chassis/net/unix-socket-path.ts'
import type { GrpcAddressSettings } from './server-settings.ts'

/**
 * Checks at the start that the addresses can be bound. The servers bind them only when the configuration and
 * the backend are available, which can take long. Nothing listens meanwhile; see `findTakenPorts`. With
 * `reusePort` the parent process has checked the gRPC port.
 *
 * @param others the other ports of the service
 * @throws Error with every setting whose address cannot be bound, and why
 */
export async function assertAddressesFree(
  { reusePort, grpcUnixSocket, grpcHost, grpcPort }: GrpcAddressSettings,
  others: readonly PortSetting[],
): Promise<void> {
  const isSocket = grpcUnixSocket !== ''
  const grpc = { name: 'GRPC_PORT', host: grpcHost, port: grpcPort }
  const socketProblem = isSocket ? await findSocketProblem(grpcUnixSocket) : undefined
  const problems = [
    ...(socketProblem === undefined ? [] : [`GRPC_UDS: ${grpcUnixSocket}: ${socketProblem}`]),
    ...(await findPortProblems([...(reusePort || isSocket ? [] : [grpc]), ...others])),
  ]
  if (problems.length > 0) throw new Error(problems.join('; '))
}

async function findSocketProblem(path: string): Promise<string | undefined> {
  return findSocketPathProblem(path) ?? ((await isServed(path)) ? 'another process listens on it' : undefined)
}

/** Returns whether a process listens on the file. If none does, a server replaces the file. */
function isServed(path: string): Promise<boolean> {
  return new Promise(resolve => {
    const client = connect(path)
    client.once('connect', () => {
      client.destroy()
      resolve(true)
    })
    client.once('error', () => resolve(false))
  })
}
