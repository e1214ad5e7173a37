//! The configuration file: read, checked, watched.

mod model;

pub use model::{
    AckMode, ApiConfig, AppCheck, Config, Guard, LogConfig, LogFormat, LogLevel, RedisConfig, Replication, RoleConfig,
    Secret, StoreConfig, TelemetryConfig, TlsConfig,
};
