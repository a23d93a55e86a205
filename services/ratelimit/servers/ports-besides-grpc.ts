import type { PortSetting } from '@tollway/chassis/net/taken-ports.ts'
import type { Settings } from '../settings.ts'

/** Returns the ports that a process of the service binds for itself alone, except the port of gRPC. */
export function portsBesidesGrpc(settings: Settings): readonly PortSetting[] {
  const { reusePort, usePullStats, disableStats, pullStatsAddress } = settings
  const http = { name: 'PORT', host: settings.host, port: settings.port }
  const debug = { name: 'DEBUG_PORT', host: settings.debugHost, port: settings.debugPort }
  const metrics = { name: 'PULLSTATS_ADDR', ...pullStatsAddress }
  return [...(reusePort ? [] : [http]), debug, ...(usePullStats && !disableStats ? [metrics] : [])]
}
