import type { SettingProblem } from '@tollway/chassis/settings.ts'
import type { Settings } from '../settings.ts'

/** What of the settings several workers on one port cannot share, each with the setting to change. */
export function findWorkerProblems(settings: Settings): readonly SettingProblem[] {
  const { workers, backendType, grpcUnixSocket, grpcPort, port } = settings
  const several = workers > 1
  if (!several) return []
  const problems: SettingProblem[] = []
  const refuse = (reason: string) =>
    problems.push({ name: 'WORKERS', message: `"${workers}" is not allowed ${reason}; allowed: 1` })
  if (backendType === 'memory') {
    refuse('with BACKEND_TYPE=memory, which counts in each process alone')
  }
  if (grpcUnixSocket !== '') refuse('with GRPC_UDS, for a socket has one process')
  for (const [name, value] of [
    ['GRPC_PORT', grpcPort],
    ['PORT', port],
  ] as const) {
    if (value !== 0) continue
    const reason = `with ${workers} WORKERS, which would have a port each`
    problems.push({ name, message: `"0" is not allowed ${reason}; allowed: 1 to 65535` })
  }
  return problems
}

/**
 * The settings of one worker: it shares the ports, has its part of what the whole may let through without a
 * backend, and tells the management server which of how many it is.
 */
export function settingsOfWorker(settings: Settings, index: number): Settings {
  const { workers, backendFailureLocalShare, xdsNodeMetadata } = settings
  return {
    ...settings,
    reusePort: true,
    backendFailureLocalShare: backendFailureLocalShare / workers,
    xdsNodeMetadata: new Map([...xdsNodeMetadata, ['worker', `${index}`], ['workers', `${workers}`]]),
  }
}
