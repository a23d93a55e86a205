import { accessSync, constants, lstatSync } from 'node:fs'
import { dirname } from 'node:path'
import { findTakenPorts, type PortAddress } from '@tollway/chassis/taken-ports.ts'
import type { Settings } from '../settings.ts'

/** The system keeps the path of a unix socket in 108 bytes on Linux, in 104 elsewhere, its end included. */
export const maxSocketPathBytes = process.platform === 'linux' ? 107 : 103

interface Wish extends PortAddress {
  /** The setting that chooses the address. */
  readonly name: string
}

/**
 * Looks whether what the settings want to be bound can be, long before it is: servers open only when the first
 * configuration is there, which may take for ever. Ports that other processes of this service share are left
 * out; who started those has looked.
 *
 * @throws Error with every setting whose address cannot be had, and why.
 */
export async function assertAddressesFree(settings: Settings): Promise<void> {
  const taken = await findTakenPorts(wishesOf(settings))
  const problems = taken.map(({ wish, error }) => `${wish.name}: ${error.message}`)
  const problem = socketProblem(settings.grpcUnixSocket)
  if (problem !== undefined) problems.unshift(`GRPC_UDS: ${settings.grpcUnixSocket}: ${problem}`)
  if (problems.length > 0) throw new Error(problems.join('; '))
}

function wishesOf(settings: Settings): readonly Wish[] {
  const { reusePort, grpcUnixSocket, usePullStats, disableStats, pullStatsAddress } = settings
  const grpc = { name: 'GRPC_PORT', host: settings.grpcHost, port: settings.grpcPort }
  const http = { name: 'PORT', host: settings.host, port: settings.port }
  const debug = { name: 'DEBUG_PORT', host: settings.debugHost, port: settings.debugPort }
  const metrics = { name: 'PULLSTATS_ADDR', ...pullStatsAddress }
  return [
    ...(reusePort || grpcUnixSocket !== '' ? [] : [grpc]),
    ...(reusePort ? [] : [http]),
    debug,
    ...(usePullStats && !disableStats ? [metrics] : []),
  ]
}

/** A socket that is there may be a dead one, which the server replaces. */
function socketProblem(path: string): string | undefined {
  if (path === '') return undefined
  const bytes = Buffer.byteLength(path)
  if (bytes > maxSocketPathBytes) return `has ${bytes} bytes, and at most ${maxSocketPathBytes} are allowed`
  try {
    accessSync(dirname(path), constants.W_OK | constants.X_OK)
    const isOther = lstatSync(path, { throwIfNoEntry: false })?.isSocket() === false
    return isOther ? 'there is something that is no socket' : undefined
  } catch (error) {
    return `its folder cannot be written to: ${(error as NodeJS.ErrnoException).code}`
  }
}
