import { nodePath } from './node-layer.ts'

/**
 * Returns the script that starts a program of an image. `kubectl exec` finds the script by the program's
 * name, since the image has no shell.
 *
 * The kernel does not apply the default action of a signal to the first process of a container, and a program
 * has no handlers while it loads: a pod that is deleted at that moment would run until its grace period ends.
 * Therefore the script handles the signals until the program adds its own handlers.
 *
 * @param module the absolute path of the program's module
 */
export function makeLauncher(module: string): string {
  return `#!${nodePath}
for (const [signal, code] of [['SIGTERM', 143], ['SIGINT', 130]]) {
  process.on(signal, () => process.listenerCount(signal) > 1 || process.exit(code))
}
import('${module}')
`
}
