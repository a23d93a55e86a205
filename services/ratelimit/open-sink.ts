import { readFile } from 'node:fs/promises'
import type { Log } from '@tollway/chassis/log/log.ts'
import { formatProblem } from './rules/problems.ts'
import type { Settings } from './settings.ts'
import { defaultMappings, type Mapping } from './stats/mapping/mapping.ts'
import { parseMappingFile } from './stats/mapping/mapping-file.ts'
import { readMogrifiers } from './stats/mapping/mogrifiers.ts'
import { createLogSink } from './stats/sinks/log-sink.ts'
import { type PrometheusServerOptions, startPrometheusServer } from './stats/sinks/prometheus-server.ts'
import { createExposition } from './stats/sinks/prometheus-text.ts'
import type { Sink } from './stats/sinks/sink.ts'
import { type Dialect, dogstatsdDialect, statsdDialect } from './stats/sinks/statsd-lines.ts'
import { createStatsdSink, droppedLinesName } from './stats/sinks/statsd-sink.ts'
import { openTcpTransport, type StatsTransportOptions } from './stats/sinks/transport.ts'
import { UdpTransport } from './stats/sinks/udp-transport.ts'
import type { Stats } from './stats/stats.ts'

interface SinkEnvironment {
  readonly stats: Stats
  readonly log: Log
  /** The environment of the process. The settings of each mogrifier are read from it. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly random: () => number
  /** Updates the statistics before each flush or scrape, if that is necessary. Must not reject. */
  readonly refresh?: () => Promise<void>
  /** The pages for probes on the port of the metrics. */
  readonly probe: PrometheusServerOptions['probe']
  write(text: string): void
}

/**
 * Opens the configured sink, and flushes it periodically until it is stopped. As in envoyproxy/ratelimit,
 * statistics go to a statsd server by default, and to the log sink if that is disabled. Rejects if several
 * sinks are enabled, or if a mogrifier, the mapping file or the address cannot be used.
 */
export async function openSink(
  settings: Settings,
  environment: SinkEnvironment,
): Promise<{ stop(): Promise<void> }> {
  if (settings.disableStats) return { async stop() {} }
  const sink = await createSink(settings, environment)
  const { refresh } = environment
  const flush = refresh === undefined ? sink.flush : () => void refresh().then(sink.flush)
  const timer = setInterval(flush, settings.statsFlushIntervalMs)
  return {
    stop() {
      clearInterval(timer)
      return sink.stop()
    },
  }
}

function createSink(settings: Settings, environment: SinkEnvironment): Promise<Sink> | Sink {
  const { usePushStats, useAgentStats, usePullStats, pushStatsProtocol, extraTags } = settings
  const on = [
    usePushStats === true && 'USE_PUSHSTATS',
    useAgentStats && 'USE_AGENTSTATS',
    usePullStats && 'USE_PULLSTATS',
  ].filter(name => name !== false)
  if (on.length > 1) {
    const found = `${on.join(' and ')} are both true`
    throw new Error(`unable to use more than one stats sink at the same time: ${found}; allowed: one of them`)
  }
  if (useAgentStats) return statsd(settings, environment, 'udp', agentDialect(settings, environment))
  if (usePullStats) return prometheus(settings, environment)
  if (usePushStats === false) return createLogSink(environment.stats, environment.write, extraTags)
  return statsd(settings, environment, pushStatsProtocol, statsdDialect(extraTags))
}

function statsd(
  { pushStatsHost: host, pushStatsPort: port }: Settings,
  { stats, log, random }: SinkEnvironment,
  protocol: 'tcp' | 'udp',
  dialect: Dialect,
): Sink {
  return createStatsdSink({
    stats,
    dialect,
    openTransport(onWritable) {
      const dropped = stats.counter(droppedLinesName)
      const options: StatsTransportOptions = { host, port, dropped, log, random, onWritable }
      return protocol === 'tcp' ? openTcpTransport(options) : new UdpTransport(options)
    },
  })
}

function agentDialect({ agentStatsMogrifiers, extraTags }: Settings, { env }: SinkEnvironment): Dialect {
  const mogrifiers = readMogrifiers(agentStatsMogrifiers, env)
  if ('value' in mogrifiers) return dogstatsdDialect(extraTags, mogrifiers.value)
  throw new Error(mogrifiers.problems.map(({ name, message }) => `${name}: ${message}`).join('\n'))
}

async function prometheus(
  settings: Settings,
  { stats, log, refresh, probe }: SinkEnvironment,
): Promise<Sink> {
  const { pullStatsAddress, pullStatsPath, extraTags, pullStatsTimersInMilliseconds } = settings
  const write = createExposition({
    stats,
    mappings: await readMappings(settings.pullStatsMapperFile, log),
    extraTags,
    timersInMilliseconds: pullStatsTimersInMilliseconds,
    onProblem: reason => log.warn('expose metric failed', { reason }),
  })
  const onDefect = (error: unknown) =>
    log.error('write metrics failed', { error: (error as Error).stack ?? String(error) })
  const expose = async () => {
    await refresh?.()
    return write()
  }
  return startPrometheusServer({ ...pullStatsAddress, path: pullStatsPath, expose, probe, onDefect })
}

async function readMappings(path: string, log: Log): Promise<readonly Mapping[]> {
  if (path === '') return defaultMappings
  const text = await readFile(path, 'utf8').catch((error: Error) => {
    throw new Error(`PULLSTATS_MAPPER_YAML: ${error.message}`)
  })
  const read = parseMappingFile('PULLSTATS_MAPPER_YAML', text)
  if ('problems' in read) throw new Error(read.problems.map(formatProblem).join('\n'))
  for (const warning of read.warnings) log.warn('report mapping warning', { reason: formatProblem(warning) })
  return read.value
}
