import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePorts } from './free-ports.ts'
import { type Program, startProgram } from './program.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { waitFor } from './wait-for.ts'

/** A master, two replicas of it, and three sentinels that watch them. */
export interface RedisSentinels {
  readonly master: RedisServer
  readonly replicas: readonly RedisServer[]
  readonly sentinels: readonly Program[]
  readonly sentinelPorts: readonly number[]
  /** `name,host:port,…` of the sentinels. */
  readonly url: string
  stop(): Promise<void>
}

export interface RedisSentinelsOptions {
  /** Additional lines of each sentinel's configuration. */
  readonly sentinelLines?: readonly string[]
}

const name = 'mymaster'
const sentinelCount = 3
/**
 * A replica may become master only if its last INFO is not older than five of these periods. While the master
 * is down a sentinel sends INFO to its replicas each second, whatever its info-period: with less than 200 ms
 * it often finds "no good slave".
 */
const pingPeriodMs = 300

export async function startRedisSentinels(options: RedisSentinelsOptions = {}): Promise<RedisSentinels> {
  const folder = temporaryFolder('tollway-sentinels')
  const quick = ['--repl-diskless-sync-delay', '0']
  const [master, ...replicas] = await Promise.all([startRedis(quick), startRedis(quick), startRedis(quick)])
  const servers = [master, ...replicas]
  const sentinels: Program[] = []
  const killAtExit = () => {
    for (const { process: child } of sentinels) child.kill('SIGKILL')
  }
  process.once('exit', killAtExit)
  const sentinelPorts = await freePorts(sentinelCount)
  const all: RedisSentinels = {
    master,
    replicas,
    sentinels,
    sentinelPorts,
    url: [name, ...sentinelPorts.map(port => `127.0.0.1:${port}`)].join(','),
    async stop() {
      process.removeListener('exit', killAtExit)
      await Promise.all([
        ...sentinels.map(sentinel => sentinel.end('SIGKILL')),
        ...servers.map(server => server.stop()),
      ])
    },
  }
  try {
    await Promise.all(replicas.map(replica => follow(replica, master)))
    for (const port of sentinelPorts) {
      sentinels.push(await startSentinel(folder, port, master.port, options.sentinelLines ?? []))
    }
    await waitFor('the sentinels to know each other', () => sentinels.every(knowsAll))
    // A sentinel reverts a failover that another one has begun after four of these periods without messages
    // about it.
    const password = passwordIn(options.sentinelLines)
    await Promise.all(sentinelPorts.map(port => debugSentinel(port, ['publish-period', '2000'], password)))
  } catch (error) {
    await all.stop()
    throw error
  }
  return all
}

async function follow(replica: RedisServer, master: RedisServer): Promise<void> {
  await replica.command('REPLICAOF', '127.0.0.1', `${master.port}`)
  await waitFor('a replica to follow', async () =>
    (await replica.command('INFO', 'replication')).includes('master_link_status:up'),
  )
}

/**
 * A sentinel stores its state in its configuration file, so it needs one. Its periods are seconds by default.
 */
async function startSentinel(
  folder: string,
  port: number,
  masterPort: number,
  lines: readonly string[],
): Promise<Program> {
  const file = join(folder, `${port}.conf`)
  const quick = ['info-period', 'ask-period', 'publish-period'].flatMap(each => [each, '100'])
  const periods = [...quick, 'ping-period', `${pingPeriodMs}`]
  const configuration = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor ${name} 127.0.0.1 ${masterPort} 2`,
    `sentinel down-after-milliseconds ${name} 500`,
    // A failover that failed because of split votes is retried after twice this time.
    `sentinel failover-timeout ${name} 1000`,
    ...lines,
    '',
  ]
  await writeFile(file, configuration.join('\n'))
  const program = startProgram('redis-server', [file, '--sentinel'])
  await program.said('+monitor master')
  await debugSentinel(port, periods, passwordIn(lines))
  return program
}

function passwordIn(lines: readonly string[] = []): string {
  const start = 'requirepass '
  return lines.find(line => line.startsWith(start))?.slice(start.length) ?? ''
}

async function debugSentinel(port: number, words: readonly string[], password: string): Promise<void> {
  const env = { ...process.env, ...(password === '' ? {} : { REDISCLI_AUTH: password }) }
  const program = startProgram('redis-cli', ['-e', '-p', `${port}`, 'SENTINEL', 'DEBUG', ...words], { env })
  const code = await program.exited()
  if (code !== 0) throw new Error(`SENTINEL DEBUG failed: ${program.output()}`)
}

function knowsAll(sentinel: Program): boolean {
  const said = sentinel.output()
  const others = new Set(said.match(/\+sentinel sentinel \S+/g)).size
  const replicas = new Set(said.match(/\+slave slave \S+/g)).size
  return others === sentinelCount - 1 && replicas === 2
}
