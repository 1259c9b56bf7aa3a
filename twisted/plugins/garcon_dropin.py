"""The two services that twistd offers once Garcon is installed."""

from twisted.application.service import ServiceMaker

controller = ServiceMaker(
    "Garcon controller",
    "garcon.controller.tap",
    "Serve chats and executors to people, agents and workers.",
    "garcon-controller",
)

worker = ServiceMaker(
    "Garcon worker",
    "garcon.worker.tap",
    "Lend this machine's agents to a controller.",
    "garcon-worker",
)
