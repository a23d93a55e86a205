import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { Histogram } from '@tollway/chassis/metrics/histogram.ts'
import type { ReconnectingCall } from '@tollway/grpc/client/reconnecting-call.ts'
import type { FeedConnection } from '@tollway/xds-client/feed-connection.ts'
import type { Configuration } from '../config/configuration.ts'
import type { Counters } from '../counters/counters.ts'
import type { ObserverSlot } from '../limiter/decision.ts'
import type { OpenedLimiter } from '../limiter/open-limiter.ts'
import type { QuotaBuckets } from '../quota/quota-buckets.ts'
import type { Settings } from '../settings.ts'
import type { Stats } from '../stats/stats.ts'
import { hideValues } from './hide-values.ts'
import { createPartCipher, noEncryption } from './recording/call-parts.ts'
import { CallRecording } from './recording/call-recording.ts'
import { createReportSession, type ProcessIdentity } from './report-session.ts'

export interface ReportsParts {
  readonly connection: FeedConnection
  readonly limiter: OpenedLimiter
  readonly slot: ObserverSlot
  readonly quota: QuotaBuckets
  readonly counters: Pick<Counters, 'add' | 'admit' | 'reservations'>
  readonly configuration: Pick<Configuration, 'rules' | 'onLoad'>
  readonly stats: Stats
  /** The durations of calls of `/json`, which the statistics do not have. */
  readonly jsonTimes: Pick<Histogram, 'counts'>
  readonly backendProblem: () => string
  readonly log: Log
}

/** The taps of all processes of a pod together report at most this many decisions in a second. */
const maxTappedOfPod = 50

/** Opens the reports that the settings ask for. This module is imported only if there is a feed. */
export function openReports(settings: Settings, parts: ReportsParts): ReconnectingCall {
  const { decisionRecordingBytes: bytes, hashReportedKeys, backendType } = settings
  const { configuration, ...same } = parts
  const identity = readIdentity(settings)
  return createReportSession({
    ...same,
    rules: configuration.rules,
    onRules: configuration.onLoad,
    identity,
    cacheKeyPrefix: settings.cacheKeyPrefix,
    canBeNegative: backendType !== 'memcache',
    allowTap: settings.decisionTap,
    maxTapped: maxTappedOfPod,
    worker: { index: identity.worker, of: Math.max(1, identity.workers) },
    recording: bytes === 0 ? undefined : new CallRecording(bytes, Math.floor(systemClock.nowMs() / 1000)),
    replaySettings: settings,
    show: hashReportedKeys ? hideValues(settings.reportedKeysSalt) : entries => entries,
    seal: hashReportedKeys ? createPartCipher(settings.reportedKeysSalt) : noEncryption,
    clock: systemClock,
    random: Math.random,
  })
}

function readIdentity(settings: Settings): ProcessIdentity {
  const { xdsNodeId: nodeId, xdsNodeMetadata, backendType: backend } = settings
  const text = (name: string) => xdsNodeMetadata.get(name) ?? ''
  const switched = {
    tap: settings.decisionTap,
    replay: settings.decisionRecordingBytes > 0,
    merge: settings.decisionRecordingBytes > 0,
    'hashed-keys': settings.hashReportedKeys,
  }
  return {
    uid: text('uid') || nodeId,
    pod: text('pod') || nodeId,
    namespace: text('namespace'),
    nodeId,
    worker: Number(text('worker') || 0),
    workers: Number(text('workers') || 0),
    features: Object.entries(switched).flatMap(([name, isOn]) => (isOn ? [name] : [])),
    backend,
  }
}
