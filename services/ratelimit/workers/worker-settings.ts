import type { SettingProblem } from '@tollway/chassis/settings.ts'
import type { Settings } from '../settings.ts'

/** Returns a problem for each setting that does not allow several workers. */
export function findWorkerProblems(settings: Settings): readonly SettingProblem[] {
  const { workers, backendType, grpcUnixSocket, grpcPort, port } = settings
  const several = workers > 1
  if (!several) return []
  const problems: SettingProblem[] = []
  const reject = (reason: string) =>
    problems.push({ name: 'WORKERS', message: `"${workers}" is not allowed ${reason}; allowed: 1` })
  if (backendType === 'memory') {
    reject('with BACKEND_TYPE=memory, which counts in each process separately')
  }
  if (grpcUnixSocket !== '') reject('with GRPC_UDS, since a socket belongs to one process')
  for (const [name, value] of [
    ['GRPC_PORT', grpcPort],
    ['PORT', port],
  ] as const) {
    if (value !== 0) continue
    const reason = `with ${workers} WORKERS, which would each have a different port`
    problems.push({ name, message: `"0" is not allowed ${reason}; allowed: 1 to 65535` })
  }
  return problems
}

/**
 * Returns the settings of one worker. It shares the ports, and gets its part of the local share of limits and
 * of the memory for recordings. It reports its index and the number of workers to the management server.
 */
export function toWorkerSettings(settings: Settings, index: number): Settings {
  const { workers, backendFailureLocalShare, decisionRecordingBytes, xdsNodeMetadata } = settings
  return {
    ...settings,
    reusePort: true,
    backendFailureLocalShare: backendFailureLocalShare / workers,
    // Rounded up, since 0 would disable the recording.
    decisionRecordingBytes: Math.ceil(decisionRecordingBytes / workers),
    xdsNodeMetadata: new Map([...xdsNodeMetadata, ['worker', `${index}`], ['workers', `${workers}`]]),
  }
}
