import { readdir, readFile, readlink } from 'node:fs/promises'
import { basename } from 'node:path'
import { findTakenPorts, type PortAddress } from '@tollway/chassis/net/taken-ports.ts'
import { InfrastructureError } from '../../../infrastructure/provider.ts'

export interface PortRequest extends PortAddress {
  /** Who needs the port, for messages: `grpc of ratelimit`. */
  readonly wantedBy: string
  /** How to choose another port, as the end of a sentence: `set GRPC_PORT`. */
  readonly advice: string
  /** How to choose another address, as the end of a sentence; left out if the address is fixed. */
  readonly hostAdvice?: string
}

/**
 * Rejects with one `InfrastructureError` that names every port that is requested twice. If there is none, the
 * error names every port that `findTakenPorts` finds in use, and the process that uses it.
 */
export async function assertPortsFree(requests: readonly PortRequest[]): Promise<void> {
  const problems = findDuplicates(requests)
  const taken = problems.length === 0 ? await findTakenPorts(requests) : []
  for (const { request, error } of taken)
    problems.push(await describePortProblem(request, error.code ?? error.message))
  if (problems.length > 0) throw new InfrastructureError(problems.join('; '))
}

function findDuplicates(requests: readonly PortRequest[]): string[] {
  const first = new Map<number, PortRequest>()
  const problems: string[] = []
  for (const request of requests) {
    const other = first.get(request.port)
    if (other === undefined) first.set(request.port, request)
    else {
      problems.push(
        `port ${request.port} is wanted twice, ` +
          `as ${other.wantedBy} and ${request.wantedBy}: ${request.advice}`,
      )
    }
  }
  return problems
}

/** The error codes for an address that this machine does not have, and for a name that does not resolve. */
const noSuchAddress = new Set(['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN', 'EINVAL'])

async function describePortProblem(request: PortRequest, code: string): Promise<string> {
  const { host, port, wantedBy, advice, hostAdvice } = request
  const where = `port ${port} (${wantedBy}) on ${host}`
  if (code === 'EACCES') return `${where} may not be bound by this user: ${advice}`
  if (noSuchAddress.has(code)) {
    const choose = hostAdvice === undefined ? '' : `: ${hostAdvice}`
    return `${where} cannot be bound, for this machine has no address ${host} (${code})${choose}`
  }
  if (code !== 'EADDRINUSE') return `${where} cannot be bound (${code}): ${advice}`
  const owner = await findOwner(port)
  return `${where} is in use by ${owner ?? 'a process that this user may not see'}: stop it, or ${advice}`
}

/**
 * Returns `process 4711 (node server.js)` for the process that listens on the port. Returns undefined if
 * /proc does not show it: on other systems than Linux, or for processes that this user may not inspect.
 */
async function findOwner(port: number): Promise<string | undefined> {
  const sockets = await listeningSockets(port)
  if (sockets.size === 0) return undefined
  for (const pid of await listOrEmpty('/proc')) {
    if (!/^\d+$/.test(pid)) continue
    for (const descriptor of await listOrEmpty(`/proc/${pid}/fd`)) {
      const target = await readlink(`/proc/${pid}/fd/${descriptor}`).catch(() => '')
      if (sockets.has(target)) return `process ${pid} (${await readCommand(pid)})`
    }
  }
  return undefined
}

/**
 * Returns the sockets that listen on the port, as the file descriptors of a process show them:
 * `socket:[INODE]`.
 */
async function listeningSockets(port: number): Promise<ReadonlySet<string>> {
  const listening = '0A'
  const hexPort = port.toString(16).toUpperCase().padStart(4, '0')
  const sockets = new Set<string>()
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    const lines = (await readFile(table, 'utf8').catch(() => '')).split('\n')
    for (const line of lines) {
      const columns = line.trim().split(/\s+/)
      if (columns[3] === listening && columns[1]?.endsWith(`:${hexPort}`))
        sockets.add(`socket:[${columns[9]}]`)
    }
  }
  return sockets
}

/** Returns the program's name, and its script if there is one. Further arguments may contain secrets. */
async function readCommand(pid: string): Promise<string> {
  const [program = '', script = ''] = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split(
    '\0',
  )
  const name = basename(program) || 'unknown'
  return /\.([cm]?[jt]s|py|rb|pl|sh)$/.test(script) ? `${name} ${script}` : name
}

async function listOrEmpty(directory: string): Promise<readonly string[]> {
  return await readdir(directory).catch(() => [])
}
