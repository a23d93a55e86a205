import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { freePorts } from './free-ports.ts'
import { findProgram } from './require-server.ts'
import { childrenOf, isRunning } from './running-processes.ts'
import { type ServerProcess, startServerProcess } from './server-process.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { root } from './tollway.ts'
import { waitFor } from './wait-for.ts'

/**
 * A PostgreSQL in a temporary folder, which is removed when it is stopped. It is as durable as in production:
 * it survives SIGKILL, and a restart has the same port and data.
 */
export interface PostgresServer extends ServerProcess {
  readonly port: number
  /** The URL of the initial database. */
  readonly url: string
  /** Creates an empty database; resolves with its URL. */
  createDatabase(name: string): Promise<string>
  /** Returns the URL of a database, optionally over another port, such as a proxy's. */
  urlOf(database: string, port?: number): string
  /** Runs statements as the superuser with psql; resolves with the output. */
  sql(statements: string, database?: string): Promise<string>
  /** Writes a file, such as a certificate, which only the server's account can read, into its data folder. */
  writeFile(name: string, content: string): void
}

const user = 'tollway'
const startTimeoutMs = 20_000
const debianFolder = '/usr/lib/postgresql'
const run = promisify(execFile)

/** Returns the path of one of PostgreSQL's programs: on the PATH, or the newest that Debian has installed. */
export function findPostgresProgram(name: string): string | undefined {
  const versions = existsSync(debianFolder) ? readdirSync(debianFolder) : []
  const paths = versions.sort((a, b) => Number(b) - Number(a)).map(v => join(debianFolder, v, 'bin', name))
  return findProgram(name) ?? paths.find(path => existsSync(path))
}

/**
 * Returns the reason to skip tests that need PostgreSQL; false when it is available. @throws as
 * `missingProgram`
 */
export function missingPostgres(): string | false {
  if (findPostgresProgram('initdb') !== undefined && findPostgresProgram('postgres') !== undefined)
    return false
  const reason = `PostgreSQL is not on the PATH and not in ${debianFolder}`
  if (process.env['REQUIRE_SERVERS'] === '1') throw new Error(`${reason}, and REQUIRE_SERVERS=1`)
  process.stderr.write(`SKIPPED: ${reason}\n`)
  return reason
}

/** @param settings additional settings of the server, such as `['max_connections=20']` */
export async function startPostgres(settings: readonly string[] = []): Promise<PostgresServer> {
  const folder = temporaryFolder('tollway-postgres')
  const account = serverAccount()
  if (account.uid !== undefined) chownSync(folder, account.uid, account.gid ?? account.uid)
  const data = join(folder, 'data')
  await makeData(data, { ...account, cwd: folder })
  const [port = 0] = await freePorts(1)
  const fixed = [`port=${port}`, 'listen_addresses=127.0.0.1', `unix_socket_directories=${folder}`]
  // A killed server leaves its shared memory behind, so it is kept in the folder.
  const shared = 'dynamic_shared_memory_type=mmap'
  const quiet = ['logging_collector=off', 'lc_messages=C']
  const args = [...fixed, shared, ...quiet, ...settings].flatMap(s => ['-c', s])
  const server = await startServerProcess(() =>
    startProcess(['-D', data, ...args], { ...account, cwd: folder }),
  )
  const urlOf = (database: string, through = port) => `postgres://${user}@127.0.0.1:${through}/${database}`

  async function sql(statements: string, database = 'postgres'): Promise<string> {
    const psql = ['-X', '-q', '-t', '-A', '-v', 'ON_ERROR_STOP=1', '-c', statements, urlOf(database)]
    const { stdout } = await run(program('psql'), psql)
    return stdout.trimEnd()
  }

  return {
    port,
    url: urlOf('postgres'),
    urlOf,
    sql,
    writeFile(name, content) {
      const path = join(data, name)
      writeFileSync(path, content, { mode: 0o600 })
      if (account.uid !== undefined) chownSync(path, account.uid, account.gid ?? account.uid)
    },
    get pid() {
      return server.pid
    },
    kill: signal => signalAll(server, signal),
    async restart() {
      await signalAll(server, 'SIGKILL')
      await server.restart()
    },
    async stop() {
      await signalAll(server, 'SIGKILL')
      await server.stop()
    },
    async createDatabase(name) {
      await sql(`CREATE DATABASE ${name}`)
      return urlOf(name)
    },
  }
}

/** Running initdb takes a second of CPU time: its result is created once and then copied. */
async function makeData(
  data: string,
  options: { readonly uid?: number; readonly cwd: string },
): Promise<void> {
  const initdb = program('initdb')
  const { stdout: version } = await run(initdb, ['--version'])
  const owner = options.uid ?? process.getuid?.()
  const template = join(root, 'out/postgres', `${version.trim().replaceAll(/[^\w.]+/g, '-')}-${owner}`)
  if (!existsSync(template)) {
    const settings = ['-U', user, '-A', 'trust', '-E', 'UTF8', '--locale', 'C.UTF-8', '--no-sync']
    await run(initdb, ['-D', data, ...settings], options)
    mkdirSync(dirname(template), { recursive: true })
    const copy = `${template}-${process.pid}`
    await run('cp', ['-a', data, copy])
    // Another test may have created it meanwhile.
    if (existsSync(template)) rmSync(copy, { recursive: true })
    else renameSync(copy, template)
    return
  }
  // Keeps the owner of each file, which Node's copy would not.
  await run('cp', ['-a', template, data])
}

function program(name: string): string {
  const path = findPostgresProgram(name)
  if (path === undefined) throw new Error(`${name} is not installed`)
  return path
}

/** PostgreSQL refuses to run as root; it then runs as the account of its package, or as `nobody`. */
function serverAccount(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {}
  for (const name of ['postgres', 'nobody']) {
    try {
      const id = (flag: string) => Number(execFileSync('id', [flag, name], { stdio: 'pipe' }))
      return { uid: id('-u'), gid: id('-g') }
    } catch {
      // The account does not exist.
    }
  }
  throw new Error('running as root, and there is no account for PostgreSQL')
}

/** The server is a process with children, each of which has a separate session. */
async function signalAll(server: ServerProcess, signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): Promise<void> {
  const pid = server.pid
  const children = childrenOf(pid)
  await server.kill(signal)
  for (const child of children) {
    try {
      process.kill(child, signal)
    } catch {
      // The process has already ended.
    }
  }
  if (signal !== 'SIGKILL') return
  await waitFor('the end of all processes of PostgreSQL', () => children.every(child => !isRunning(child)))
}

async function startProcess(args: readonly string[], options: object): Promise<ChildProcess> {
  const child = spawn(program('postgres'), args, { ...options, stdio: ['ignore', 'ignore', 'pipe'] })
  const { stderr } = child
  if (stderr === null) throw new Error('postgres has no standard error')
  const lines: string[] = []
  const giveUp = setTimeout(() => child.kill('SIGKILL'), startTimeoutMs)
  try {
    for await (const line of createInterface({ input: stderr })) {
      lines.push(line)
      if (line.includes('database system is ready to accept connections')) return child
    }
  } finally {
    clearTimeout(giveUp)
    stderr.resume()
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  throw new Error(`postgres did not start:\n${lines.join('\n')}`)
}
