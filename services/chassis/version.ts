import packageJson from './package.json' with { type: 'json' }

/** All packages of Tollway share one version. */
export const version: string = packageJson.version
