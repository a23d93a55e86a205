import { askOnce } from './resp/ask.ts'
import type { RespConnection } from './resp/connection.ts'
import type { SessionOptions } from './resp/session.ts'

/**
 * Reads the memory settings of the first Redis whose connection becomes healthy, and warns when they may
 * evict counters. It sends INFO once, on a separate connection, since a proxy that does not support INFO
 * closes the connection. A Redis that rejects the command causes no warning.
 */
export function createEvictionWarning(
  session: Omit<SessionOptions, 'endpoint'>,
  onWarning: ((text: string) => void) | undefined,
): (connection: RespConnection) => void {
  let asked = false
  async function check(connection: RespConnection, warn: (text: string) => void): Promise<void> {
    const { endpoint } = connection
    if (asked || endpoint === undefined) return
    asked = true
    const memory = await askOnce({ ...session, endpoint }, 'INFO', 'memory')
    const text = typeof memory === 'string' ? evictionWarning(memory) : undefined
    if (text !== undefined) warn(text)
  }

  return connection => {
    if (onWarning === undefined) return
    connection.onHealth(healthy => {
      if (healthy) void check(connection, onWarning)
    })
  }
}

/** @param memory the section `memory` of the reply to INFO */
function evictionWarning(memory: string): string | undefined {
  const limitBytes = /^maxmemory:(\d+)/m.exec(memory)?.[1] ?? '0'
  const policy = /^maxmemory_policy:(\S+)/m.exec(memory)?.[1] ?? 'noeviction'
  if (limitBytes === '0' || policy === 'noeviction') return undefined
  return (
    `Redis has maxmemory-policy ${policy}: at its limit of ${limitBytes} bytes it may evict counters, ` +
    'and their limits then start anew; use noeviction'
  )
}
