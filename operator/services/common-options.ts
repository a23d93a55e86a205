import { logLevels } from '@tollway/chassis/log/log.ts'
import { type HostConfig, oneOf, text } from './host-option.ts'

/** The options of `tollway run` that several services use. */
export const commonOptions = {
  redisUrl: text({
    flag: 'redis-url',
    placeholder: 'URL',
    fallback: '',
    help:
      'the address of Redis: host:port, the path of a Unix socket, or redis://…; without it, the operator ' +
      'starts the redis-server of the PATH for several processes of a service',
  }),
  host: text({
    flag: 'host',
    placeholder: 'ADDRESS',
    fallback: '127.0.0.1',
    help: 'the address on which the services accept calls',
  }),
  logLevel: oneOf(logLevels, {
    flag: 'log-level',
    placeholder: 'LEVEL',
    fallback: 'info',
    help: `the log level: ${logLevels.join(', ')}`,
  }),
}

export type CommonConfig = HostConfig<typeof commonOptions>
