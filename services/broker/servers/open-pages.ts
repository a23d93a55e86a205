import type { Server } from 'node:http'
import { isLoopback } from '@tollway/chassis/net/is-loopback.ts'
import { closeHttp, listenHttp } from '@tollway/chassis/net/listen-http.ts'
import type { PortSetting } from '@tollway/chassis/net/taken-ports.ts'
import type { Settings } from '../settings.ts'
import type { AdminServerOptions } from './admin-server.ts'
import type { AdminTokens } from './admin-tokens.ts'
import { createDebugServer, createMetricsServer, type PagesOptions } from './debug.ts'

interface OpenPagesOptions extends PagesOptions, Pick<AdminServerOptions, 'tls' | 'log'> {}

/** Opens the debug server and, if the settings say so, the metrics server and the admin API. */
export async function openPages(settings: Settings, options: OpenPagesOptions) {
  // An invalid file of tokens ends the start before any server listens.
  const tokens = await openTokens(settings, options)
  const servers: Server[] = []
  const listen = (server: Server, host: string, port: number) => {
    servers.push(server)
    return listenHttp(server, { host, port })
  }
  const { debugHost, metricsHost, adminHost } = settings
  const debugPort = await listen(createDebugServer(options), debugHost, settings.debugPort)
  if (settings.metricsPort !== 0)
    await listen(createMetricsServer(options), metricsHost, settings.metricsPort)
  const adminPort =
    tokens && (await listen(await openAdminServer(tokens, options), adminHost, settings.adminPort))
  return {
    debugPort,
    adminPort,
    stop: () => Promise.all(servers.map(server => closeHttp(server, 0))),
  }
}

/** Returns undefined without a file of tokens. The admin API is imported only with such a file. */
async function openTokens(
  { adminTokenFile: path, adminHost }: Settings,
  { clock, tls, log }: OpenPagesOptions,
): Promise<AdminTokens | undefined> {
  if (path === '') return undefined
  const { AdminTokens } = await import('./admin-tokens.ts')
  const tokens = new AdminTokens(path, clock, reason => log.warn('read admin tokens failed', { reason }))
  if (tls === undefined && !isLoopback(adminHost)) {
    const reason = 'without TLS, its tokens can be read on the network'
    log.warn('protect admin API failed', { host: adminHost, reason })
  }
  return tokens
}

async function openAdminServer(tokens: AdminTokens, options: OpenPagesOptions): Promise<Server> {
  const { createAdminServer } = await import('./admin-server.ts')
  return createAdminServer({ ...options, pages: options, tokens })
}

/** Returns the ports to check before the start. */
export function listPagePorts(settings: Settings): readonly PortSetting[] {
  const { debugHost, debugPort, metricsHost, metricsPort, adminHost, adminPort } = settings
  return [
    { name: 'DEBUG_PORT', host: debugHost, port: debugPort },
    ...(metricsPort === 0 ? [] : [{ name: 'METRICS_PORT', host: metricsHost, port: metricsPort }]),
    ...(settings.adminTokenFile === '' ? [] : [{ name: 'ADMIN_PORT', host: adminHost, port: adminPort }]),
  ]
}
