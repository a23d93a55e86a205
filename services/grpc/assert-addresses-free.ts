import { findPortProblems, type PortSetting } from '@tollway/chassis/taken-ports.ts'
import { findSocketPathProblem } from '@tollway/chassis/unix-socket-path.ts'
import type { GrpcAddressSettings } from './server-settings.ts'

/**
 * Looks whether what the settings want to be bound can be, long before it is: servers open only when the first
 * configuration is there, which may take for ever. A port that other processes of the service share is left out;
 * who started those has looked.
 *
 * @param others the ports of the service besides that of gRPC.
 * @throws Error with every setting whose address cannot be had, and why.
 */
export async function assertAddressesFree(
  { reusePort, grpcUnixSocket, grpcHost, grpcPort }: GrpcAddressSettings,
  others: readonly PortSetting[],
): Promise<void> {
  const isSocket = grpcUnixSocket !== ''
  const grpc = { name: 'GRPC_PORT', host: grpcHost, port: grpcPort }
  const socketProblem = isSocket ? findSocketPathProblem(grpcUnixSocket) : undefined
  const problems = [
    ...(socketProblem === undefined ? [] : [`GRPC_UDS: ${grpcUnixSocket}: ${socketProblem}`]),
    ...(await findPortProblems([...(reusePort || isSocket ? [] : [grpc]), ...others])),
  ]
  if (problems.length > 0) throw new Error(problems.join('; '))
}
