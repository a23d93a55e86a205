import type { SecretFiles, Workload } from '../../../../ir.ts'

/** The only place that a replica can write to, with what it may hold before the pod is evicted. */
const scratch = { name: 'tmp', path: '/tmp', sizeLimit: '256Mi' } as const
/** Readable by the owner and the group of the pod only. */
const secretFileMode = 0o440

export function makeVolumes({ secretFiles = [] }: Pick<Workload, 'secretFiles'>) {
  return [
    { name: scratch.name, emptyDir: { sizeLimit: scratch.sizeLimit } },
    ...secretFiles.map(files => ({ name: files.name, secret: secretSource(files) })),
  ]
}

/** A Secret that is not there yet does not keep the pod from its start: its files appear later. */
function secretSource({ secretName, keys }: SecretFiles) {
  return {
    secretName,
    optional: true,
    defaultMode: secretFileMode,
    ...(keys === undefined ? {} : { items: keys.map(key => ({ key, path: key })) }),
  }
}

export function makeVolumeMounts({ secretFiles = [] }: Pick<Workload, 'secretFiles'>) {
  return [
    { name: scratch.name, mountPath: scratch.path },
    ...secretFiles.map(({ name, folder }) => ({ name, mountPath: folder, readOnly: true })),
  ]
}
