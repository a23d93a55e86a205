import { nodePath } from './node-layer.ts'

/**
 * Returns the script that runs a program of an image, which `kubectl exec` finds by its name; the image has
 * no shell.
 *
 * The kernel does not end the first process of a container by a signal without a handler, and a program has
 * no handler while it loads: a pod that was deleted at that moment would stay until its grace period ends.
 * Therefore the script handles the signals until the program does.
 *
 * @param module the absolute path of the program
 */
export function makeLauncher(module: string): string {
  return `#!${nodePath}
for (const [signal, code] of [['SIGTERM', 143], ['SIGINT', 130]]) {
  process.on(signal, () => process.listenerCount(signal) > 1 || process.exit(code))
}
import('${module}')
`
}
