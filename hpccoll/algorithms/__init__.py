"""The catalogue's entries, one file per collective; `hpccoll.registry.catalogue` reads them all."""
