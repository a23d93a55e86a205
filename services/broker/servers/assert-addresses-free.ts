import { findTakenPorts } from '@tollway/chassis/taken-ports.ts'
import type { Settings } from '../settings.ts'

/**
 * Looks whether the ports of the settings can be had, before anything is waited for. A port that other
 * processes of this service share is left out; who started those has looked.
 *
 * @throws Error with every setting whose port cannot be had, and why.
 */
export async function assertAddressesFree(settings: Settings): Promise<void> {
  const { reusePort, grpcUnixSocket, grpcHost, grpcPort, debugHost, debugPort } = settings
  const { metricsHost, metricsPort } = settings
  const taken = await findTakenPorts([
    ...(reusePort || grpcUnixSocket !== '' ? [] : [{ name: 'GRPC_PORT', host: grpcHost, port: grpcPort }]),
    { name: 'DEBUG_PORT', host: debugHost, port: debugPort },
    ...(metricsPort === 0 ? [] : [{ name: 'METRICS_PORT', host: metricsHost, port: metricsPort }]),
  ])
  if (taken.length === 0) return
  throw new Error(taken.map(({ wish, error }) => `${wish.name}: ${error.message}`).join('; '))
}
