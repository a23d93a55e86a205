import { join } from 'node:path'

/**
 * The programs of Tollway, as files for Node: their sources, or their bundles in the folder of
 * TOLLWAY_PROGRAMS. A bundle is what the images contain, and loads in a third of the CPU time of the sources.
 */
export const programs = {
  tollway: fileOf('operator/cli/tollway.ts'),
  rateLimit: fileOf('services/ratelimit/main.ts'),
  broker: fileOf('services/broker/main.ts'),
  payments: fileOf('services/payments/main.ts'),
}

/** Returns the name of the bundle of a source, without its extension. */
export function bundleName(source: string): string {
  return source.replace(/\.ts$/, '').replaceAll('/', '-')
}

function fileOf(source: string): string {
  const root = join(import.meta.dirname, '../..')
  const folder = process.env['TOLLWAY_PROGRAMS']
  return folder === undefined ? join(root, source) : join(root, folder, `${bundleName(source)}.mjs`)
}
